#include "accept/charts.h"

#include <algorithm>
#include <cmath>

#include "base/html.h"

namespace convoy {
namespace {

// Pixels of the drawing.
constexpr double left = 84, top = 16, height = 220;
constexpr double letter = 6.5;  // mean width of a letter
constexpr size_t colours = 6;   // classes s0 to s5

// An axis of smaller values ends at 1. The distance of its ticks could round to 0, and then
// ticks_to() would never end.
constexpr double least_shown = 1e-300;

std::string series_class(size_t i) { return "s" + std::to_string(i % colours); }

std::string label_at(double x, double y, const char* anchor, const std::string& text, const std::string& more = "") {
    return formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more.c_str()) +
           html_escaped(text) + "</text>\n";
}

/// Returns a short name as it is, and a long one as "…" and its end, where hosts often differ.
std::string short_name(const std::string& name) {
    constexpr size_t most = 17;
    if (name.size() <= most) return name;
    size_t begin = name.size() - most + 1;
    while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xC0) == 0x80) ++begin;
    return "…" + name.substr(begin);
}

std::string titled(const std::string& title) { return "<title>" + html_escaped(title) + "</title>"; }

std::string horizontal(const std::string& kind, double x, double y, double width, const std::string& inside = "") {
    return formatted("<path class=\"%s\" d=\"M%.1f %.1fH%.1f\">", kind.c_str(), x, y, x + width) + inside + "</path>\n";
}

std::string svg_element(const std::string& id, double width, double tall, const std::string& content) {
    return formatted(
               "<div class=\"wide\"><svg id=\"%s\" role=\"img\" aria-labelledby=\"%s-caption\" width=\"%.0f\" "
               "height=\"%.0f\">\n",
               id.c_str(), id.c_str(), width, tall) +
           content + "</svg></div>\n";
}

/// Returns a drawing with axes. `width`: of the plot; `below`: height of the labels below it.
std::string svg_with_axes(const std::string& id, double width, double below, const std::string& content) {
    return svg_element(id, left + width + 16, top + height + below, content);
}

std::string legend_of(const std::vector<std::pair<std::string, std::string>>& kinds_and_names) {
    if (kinds_and_names.size() < 2) return "";
    std::string html = "<ul class=\"legend\">";
    for (const auto& [kind, name] : kinds_and_names)
        html += "<li><i class=\"" + kind + "\"></i>" + html_escaped(name) + "</li>";
    return html + "</ul>\n";
}

/// The axis on the left, with a grid.
class ValueAxis {
public:
    ValueAxis(double most, std::string unit)
        : ticks_(ticks_to(most > least_shown ? most : 1)), unit_(std::move(unit)) {}
    double y(double value) const { return top + height * (1 - value / ticks_.back()); }
    std::string svg(double width) const {
        std::string text;
        for (const double tick : ticks_)
            text += horizontal(tick == 0 ? "axis" : "grid", left, y(tick), width) +
                    label_at(left - 6, y(tick) + 4, "end", with_unit(tick, unit_));
        return text;
    }

private:
    std::vector<double> ticks_;
    std::string unit_;
};

template <class Series> double largest_of(const std::vector<Series>& all, double most) {
    for (const Series& s : all)
        for (const double value : s.values)
            if (std::isfinite(value)) most = std::max(most, value);
    return most;
}

/// Names below groups of equal width, at an angle if they are too long to stand side by side.
class GroupNames {
public:
    GroupNames(const std::vector<std::string>& names, double width) : width_(width) {
        for (const std::string& name : names) names_.push_back(short_name(name));
        size_t longest = 0;
        for (const std::string& name : names_) longest = std::max(longest, name.size());
        tilted_ = letter * double(longest) > width - 6;
        below_ = tilted_ ? 24 + 0.65 * letter * double(longest) : 30;
    }
    double below() const { return below_; }
    std::string svg() const {
        std::string text;
        const size_t stride = tilted_ ? size_t(std::ceil(13 / width_)) : 1;
        for (size_t i = 0; i < names_.size(); i += stride) {
            const double x = left + width_ * (double(i) + 0.5), y = top + height + (tilted_ ? 14 : 18);
            text += label_at(x, y, tilted_ ? "end" : "middle", names_[i],
                             tilted_ ? formatted(" transform=\"rotate(-40 %.1f %.1f)\"", x, y) : "");
        }
        return text;
    }

private:
    std::vector<std::string> names_;
    double width_, below_;
    bool tilted_;
};

std::string bars_of_group(const BarChart& c, size_t group, double width, const ValueAxis& axis) {
    std::string text;
    const double pad = 0.12 * width, bar = (width - 2 * pad) / double(c.bars.size()), x = left + double(group) * width;
    const bool bad = group < c.bad.size() && c.bad[group];
    for (size_t i = 0; i < c.bars.size(); ++i) {
        const double value = c.bars[i].values[group];
        if (!std::isfinite(value)) continue;
        text += formatted("<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">",
                          (series_class(i) + (bad ? " bad" : "")).c_str(), x + pad + double(i) * bar, axis.y(value),
                          std::max(bar - 1, 1.0), axis.y(0) - axis.y(value)) +
                titled(c.groups[group] + ", " + c.bars[i].name + ": " + with_unit(value, c.unit)) + "</rect>\n";
    }
    for (const ChartMark& mark : c.marks)
        if (const double value = mark.values[group]; std::isfinite(value))
            text += horizontal("mark " + mark.name, x + pad + double(mark.bar) * bar, axis.y(value), bar,
                               titled(mark.name + ": " + with_unit(value, c.unit)));
    return bad ? text + label_at(x + width / 2, top - 3, "middle", "!", " class=\"alarm\"") : text;
}

std::string size_text(double bytes) {
    if (bytes >= 1 << 20) return formatted("%g MiB", bytes / (1 << 20));
    return bytes >= 1 << 10 ? formatted("%g KiB", bytes / (1 << 10)) : formatted("%g B", bytes);
}

/// The axis below a line chart.
class PlaceAxis {
public:
    PlaceAxis(const LineChart& c, double width) : chart_(c), width_(width) {
        for (const ChartLine& line : c.lines)
            for (const auto& [x, y] : line.points) {
                low_ = std::min(low_, place(x));
                high_ = std::max(high_, place(x));
            }
        if (!c.of_sizes) low_ = 0;
    }
    double x(double value) const {
        return left + (high_ > low_ ? width_ * (place(value) - low_) / (high_ - low_) : width_ / 2);
    }
    std::string text_of(double value) const {
        return chart_.of_sizes ? size_text(value) : with_unit(value, chart_.x_unit);
    }
    std::string svg() const {
        std::string text;
        const auto label = [&](double value) {
            text += label_at(x(value), top + height + 18, "middle", text_of(value));
        };
        if (chart_.of_sizes)
            for (const auto& point : chart_.lines[0].points) label(point.first);
        else
            for (const double tick : ticks_to(std::max(high_, 1e-9)))
                if (tick <= high_) label(tick);
        return text;
    }

private:
    double place(double value) const { return chart_.of_sizes ? std::log2(std::max(value, 1.0)) : value; }

    const LineChart& chart_;
    const double width_;
    double low_ = INFINITY, high_ = -INFINITY;
};

std::string curve(const ChartLine& line, const std::string& kind, const PlaceAxis& across, const ValueAxis& up,
                  const std::string& unit) {
    std::string path, circles;
    for (const auto& [x, value] : line.points) {
        path += formatted("%s%.1f %.1f", path.empty() ? "M" : "L", across.x(x), up.y(value));
        circles +=
            formatted("<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\">", kind.c_str(), across.x(x), up.y(value)) +
            titled(line.name + ": " + with_unit(value, unit) + " at " + across.text_of(x)) + "</circle>\n";
    }
    constexpr size_t most_circles = 40;
    return "<path class=\"line " + kind + (line.dashed ? " dashed" : "") + "\" d=\"" + path + "\">" +
           titled(line.name) + "</path>\n" + (line.points.size() <= most_circles ? circles : "");
}

}  // namespace

std::vector<double> ticks_to(double most) {
    const double power = std::pow(10, std::floor(std::log10(most)));
    double step = 2 * power;
    for (const double factor : {0.2, 0.5, 1.0})
        if (most <= 6 * factor * power) {
            step = factor * power;
            break;
        }
    std::vector<double> ticks = {0};
    while (ticks.back() < most * (1 - 1e-9)) ticks.push_back(double(ticks.size()) * step);
    return ticks;
}

std::string with_unit(double value, const std::string& unit) {
    static constexpr std::pair<double, const char*> prefixes[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    const std::string shown = unit == "bytes/s" ? "B/s" : unit;
    if (unit == "bytes/s" || unit == "Hz")
        for (const auto& [factor, prefix] : prefixes)
            if (value >= factor) return formatted("%.3g %s", value / factor, prefix) + shown;
    const std::string number = value >= 1000 ? grouped(size_t(std::llround(value))) : formatted("%.3g", value);
    return unit == "1" ? number : number + " " + shown;
}

std::string svg_of(const BarChart& c) {
    const double width = std::clamp(640 / double(c.groups.size()), 8.0, 110.0), all = width * double(c.groups.size());
    const ValueAxis axis(largest_of(c.marks, largest_of(c.bars, 0)), c.unit);
    const GroupNames names(c.groups, width);
    std::string content = axis.svg(all) + names.svg();
    for (size_t group = 0; group < c.groups.size(); ++group) content += bars_of_group(c, group, width, axis);
    std::vector<std::pair<std::string, std::string>> legend;
    for (size_t i = 0; i < c.bars.size(); ++i) legend.emplace_back(series_class(i), c.bars[i].name);
    for (const ChartMark& mark : c.marks)
        if (const std::pair<std::string, std::string> entry{"mark " + mark.name, mark.name};
            std::ranges::count(legend, entry) == 0)
            legend.push_back(entry);
    return svg_with_axes(c.id, all, names.below(), content) + legend_of(legend);
}

std::string svg_of(const LineChart& c) {
    constexpr double width = 640;
    constexpr size_t most_named = 12;
    double most = 0;
    for (const ChartLine& line : c.lines)
        for (const auto& point : line.points) most = std::max(most, point.second);
    const ValueAxis up(most, c.y_unit);
    const PlaceAxis across(c, width);
    std::string content = up.svg(width) + across.svg();
    std::vector<std::pair<std::string, std::string>> legend;
    for (size_t i = 0; i < c.lines.size(); ++i) {
        content += curve(c.lines[i], series_class(i), across, up, c.y_unit);
        legend.emplace_back(series_class(i), c.lines[i].name);
    }
    return svg_with_axes(c.id, width, 30, content) + (legend.size() <= most_named ? legend_of(legend) : "");
}

std::string svg_of(const HeatMap& c) {
    const size_t n = c.names.size();
    const double side = std::clamp(560 / double(n), 8.0, 52.0), all = side * double(n);
    double most = 0;
    for (const std::vector<double>& row : c.values)
        for (const double value : row)
            if (std::isfinite(value)) most = std::max(most, value);
    std::string content;
    size_t longest = 0;
    const size_t stride = size_t(std::ceil(13 / side));
    for (size_t row = 0; row < n; ++row) {
        const double y = 4 + double(row) * side;
        const std::string name = short_name(c.names[row]);
        longest = std::max(longest, name.size());
        if (row % stride == 0) content += label_at(all + 8, y + side / 2 + 4, "start", name);
        for (size_t column = 0; column < n; ++column) {
            const double value = c.values[row][column], x = double(column) * side;
            if (!std::isfinite(value)) continue;
            const double share = most > 0 ? value / most : 0;
            const bool bad = value < c.limit;
            content += formatted(
                           "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                           "fill-opacity=\"%.2f\">",
                           bad ? "s0 bad" : "s0", x, y, side - 1, side - 1, bad ? 1 : 0.1 + 0.9 * share) +
                       titled(c.names[row] + " and " + c.names[column] + ": " + with_unit(value, "bytes/s") +
                              (bad ? ", slow" : "")) +
                       "</rect>\n";
            if (side >= 40)
                content += label_at(x + side / 2, y + side / 2 + 4, "middle", formatted("%.3g", value / 1e9),
                                    bad || share > 0.5 ? " class=\"on\"" : "");
        }
    }
    return svg_element(c.id, all + 16 + letter * double(longest), all + 8, content);
}

}  // namespace convoy
