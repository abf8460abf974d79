#include <algorithm>
#include <cmath>
#include <map>

#include "accept/charts.h"
#include "accept/page.h"
#include "base/html.h"
#include "base/quantile.h"

namespace convoy {
namespace {

using Figures = std::vector<Figure>;

std::string picture(const std::string& id, const std::string& caption, const std::string& svg) {
    return "<figure><figcaption id=\"" + id + "-caption\">" + html_escaped(caption) + "</figcaption>\n" + svg +
           "</figure>\n";
}

/// Returns the value of a figure that a level has once; NaN: it has none.
double single(const LevelResult& r, const std::string& name) {
    const Figures all = figures_named(r, name);
    return all.empty() ? NAN : all[0].value;
}

std::vector<double> values_of(const Figures& figures) {
    std::vector<double> values;
    for (const Figure& f : figures) values.push_back(f.value);
    return values;
}

/// Names a figure's rank: "node01, rank 3".
std::string rank_name(const Figure& f) { return f.rank < 0 ? f.host : f.host + ", rank " + std::to_string(f.rank); }

std::string pair_picture(const LevelResult& r) {
    constexpr size_t most_hosts = 128;
    const Figures pairs = figures_named(r, "pair_bandwidth");
    if (pairs.empty()) return "";
    HeatMap map{.id = "pairs", .names = {}, .values = {}};
    std::map<std::string, size_t> index;
    for (const Figure& f : pairs)
        for (const std::string& host : {f.host, f.peer})
            if (index.emplace(host, index.size()).second) map.names.push_back(host);
    if (map.names.size() > most_hosts)
        return formatted("<p class=\"note\">Pairs of %zu hosts are too many for a picture; metrics.h5 has them.</p>\n",
                         map.names.size());
    map.values.assign(index.size(), std::vector<double>(index.size(), NAN));
    for (const Figure& f : pairs)
        map.values[index[f.host]][index[f.peer]] = map.values[index[f.peer]][index[f.host]] = f.value;
    const double limit = single(r, "pair_limit"), expected = single(r, "expected_pair_bandwidth");
    if (!std::isnan(limit)) map.limit = limit;
    const std::vector<double> all = values_of(pairs);
    return picture("pairs",
                   "Bandwidth of all-reduces over each pair of hosts, from " +
                       with_unit(*std::ranges::min_element(all), "bytes/s") + " (light) to " +
                       with_unit(*std::ranges::max_element(all), "bytes/s") + " (dark); numbers are GB/s." +
                       (std::isnan(limit) ? "" : " Slow pairs, below " + with_unit(limit, "bytes/s") + ", are red.") +
                       (std::isnan(expected) ? "" : " Expected: " + with_unit(expected, "bytes/s") + "."),
                   svg_of(map));
}

std::string size_picture(const LevelResult& r) {
    const auto line = [&](const char* figure, const char* name, bool dashed) {
        ChartLine l{.name = name, .points = {}, .dashed = dashed};
        for (const Figure& f : figures_named(r, figure)) l.points.emplace_back(f.at, f.value);
        return l;
    };
    LineChart chart{.id = "sizes", .x_unit = "bytes", .y_unit = "bytes/s", .lines = {}, .of_sizes = true};
    chart.lines = {line("bandwidth", "measured", false), line("expected_bandwidth", "expected", true)};
    std::erase_if(chart.lines, [](const ChartLine& l) { return l.points.empty(); });
    if (chart.lines.empty()) return "";
    return picture("sizes", "Bandwidth of all-reduces over all ranks, by the size of the message.", svg_of(chart));
}

std::string inside_picture(const LevelResult& r) {
    const Figures inside = figures_named(r, "inside_bandwidth");
    if (inside.empty()) return "";
    BarChart chart{.id = "inside", .unit = "bytes/s", .groups = {}, .bars = {{"measured", values_of(inside)}}};
    for (const Figure& f : inside) chart.groups.push_back(f.host);
    if (const double expected = single(r, "expected_inside_bandwidth"); !std::isnan(expected))
        chart.marks.push_back({"expected", std::vector<double>(inside.size(), expected)});
    return picture("inside", "Bandwidth of all-reduces inside each host.", svg_of(chart));
}

std::string speed_picture(const LevelResult& r) {
    const Figures alone = figures_named(r, "alone"), beside = figures_named(r, "beside");
    if (alone.empty() || beside.size() != alone.size()) return "";
    BarChart chart{.id = "speeds",
                   .unit = "images/s",
                   .groups = {},
                   .bars = {{"alone", values_of(alone)}, {"beside the others", values_of(beside)}}};
    chart.bad.assign(alone.size(), false);
    for (const Figure& f : alone) chart.groups.push_back(rank_name(f));
    for (const size_t bar : {0, 1}) {
        const std::string name = bar == 0 ? "alone" : "beside";
        for (const char* mark : {"median", "limit"})
            if (const Figures marks = figures_named(r, name + "_" + mark); marks.size() == alone.size())
                chart.marks.push_back({mark, values_of(marks), bar});
    }
    for (const ChartMark& mark : chart.marks)
        for (size_t i = 0; i < alone.size() && mark.name == "limit"; ++i)
            if (chart.bars[mark.bar].values[i] < mark.values[i]) chart.bad[i] = true;
    const double together = single(r, "together"), expected = single(r, "expected");
    return picture("speeds",
                   "Images per second of each rank: while the others of its host wait, and while all ranks compute, "
                   "each for itself. Median and limit are those of the ranks with the same kind of device." +
                       (std::isnan(together) ? "" : " All together: " + with_unit(together, "images/s") + ".") +
                       (std::isnan(expected) ? "" : " Expected: " + with_unit(expected, "images/s") + "."),
                   svg_of(chart));
}

std::string input_picture(const LevelResult& r) {
    const Figures read = figures_named(r, "read_at_once"), one = figures_named(r, "read_alone");
    if (read.empty()) return "";
    BarChart chart{.id = "reading", .unit = "bytes/s", .groups = {}, .bars = {{"all at once", values_of(read)}}};
    for (const Figure& f : read) chart.groups.push_back(f.host);
    if (!one.empty()) {
        std::vector<double> values(read.size(), NAN);
        const auto at = std::ranges::find(chart.groups, one[0].host);
        if (at != chart.groups.end()) values[size_t(at - chart.groups.begin())] = one[0].value;
        chart.bars.push_back({"one host alone", values});
    }
    const std::vector<double> all = values_of(read);
    chart.marks.push_back({"median", std::vector<double>(read.size(), median(all))});
    if (const double limit = single(r, "read_limit"); !std::isnan(limit)) {
        chart.marks.push_back({"limit", std::vector<double>(read.size(), limit)});
        for (const double value : all) chart.bad.push_back(value < limit);
    }
    return picture("reading", "Bytes per second that each host reads from the folder of the data.", svg_of(chart));
}

std::string curves(const LevelResult& r, const std::string& figure, const std::string& caption) {
    LineChart chart{.id = "curve-" + figure, .x_unit = "s", .y_unit = "", .lines = {}};
    std::map<int, size_t> line_of;  // by rank
    for (const Figure& f : figures_named(r, figure)) {
        const auto [at, is_new] = line_of.emplace(f.rank, chart.lines.size());
        if (is_new) chart.lines.push_back({.name = rank_name(f), .points = {}});
        chart.lines[at->second].points.emplace_back(f.at, f.value);
        chart.y_unit = f.unit;
    }
    return chart.lines.empty() ? "" : picture(chart.id, caption, svg_of(chart));
}

}  // namespace

std::string pictures_of(const LevelResult& r) {
    if (r.level == "sums") return pair_picture(r) + size_picture(r) + inside_picture(r);
    if (r.level == "speed") return speed_picture(r);
    if (r.level == "input") return input_picture(r);
    if (r.level == "endurance")
        return curves(r, "speed", "Steps per second of each rank, over the time of the test.") +
               curves(r, "temperature", "Temperature of each device.") + curves(r, "clock", "Clock of each device.");
    return "";
}

}  // namespace convoy
