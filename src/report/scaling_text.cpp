// Output of `convoy report --scaling`: tables for people, CSV or JSON for programs.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/table.h"
#include "base/text.h"
#include "report/scaling.h"

namespace convoy {
namespace {

std::string number_or(double v, const char* pattern, const std::string& otherwise) {
    constexpr double most = 1e15;  // a column is as wide as its longest cell
    if (!std::isfinite(v)) return otherwise;
    return formatted(std::abs(v) < most ? pattern : "%.3g", v);
}

/// Returns a cell's samples/s, or why it has none.
std::string rate_or(const ScalingRun& r, const char* pattern, const std::string& otherwise) {
    if (r.out_of_memory) return "OOM";
    if (r.to_do) return "TODO";
    return number_or(r.samples_per_second, pattern, otherwise);
}

/// Returns the word for a rank in titles.
const char* unit_of(const ScalingRun& r) { return r.device == "gpu" ? "GPU" : "rank"; }

/// The cells of one table, in the order in which it shows them.
struct TableCells {
    std::map<std::pair<int64_t, int64_t>, std::map<std::string, const ScalingCell*>>
        rows;                            // (ranks, nodes) -> source -> cell
    std::vector<std::string> published;  // names of the sources
    std::string published_precision, note;
    int64_t most_runs = 0, base = 0;
    bool expected = false;  // true if some cell has a prediction
};

TableCells arranged(const std::vector<ScalingCell>& cells) {
    TableCells t;
    for (const ScalingCell& c : cells) {
        t.rows[{c.run.ranks, c.run.nodes}][c.run.source] = &c;
        if (c.run.source == "Convoy") {
            t.most_runs = std::max(t.most_runs, c.runs);
            t.expected |= std::isfinite(c.expected);
            if (c.base_ranks) t.base = c.base_ranks;
            if (!c.note.empty()) t.note = c.note;
            continue;
        }
        t.published_precision = c.run.precision;
        if (std::find(t.published.begin(), t.published.end(), c.run.source) == t.published.end())
            t.published.push_back(c.run.source);
    }
    return t;
}

std::string title_of(const ScalingRun& group, const TableCells& t) {
    const auto known = [](const std::string& text, const char* otherwise) {
        return text.empty() ? std::string(otherwise) : text;
    };
    std::string title = known(group.model, "unknown model") + ", " + known(group.precision, "unknown precision") +
                        ", " + work_text(group) + ", batch " + std::to_string(group.batch) + " per " + unit_of(group);
    if (t.most_runs > 1) title += "; medians of up to " + std::to_string(t.most_runs) + " runs";
    if (t.base > 1) title += "; speed-up over " + std::to_string(t.base) + " " + unit_of(group) + "s";
    if (!t.published.empty()) title += "; published, " + t.published_precision + ": samples/s (speed-up)";
    return t.note.empty() ? title : title + "; " + t.note;
}

/// Formats one table, with a row for each number of nodes and ranks.
std::string table_of(const std::vector<ScalingCell>& cells, Format format) {
    const ScalingRun& group = cells.front().run;
    const TableCells t = arranged(cells);
    TextTable table{{std::string("nodes-") + unit_of(group) + "s", "samples/s", "speed-up", "efficiency"}, {}};
    if (t.expected) table.header.insert(table.header.end(), {"expected", "limited by"});
    table.header.insert(table.header.end(), t.published.begin(), t.published.end());
    for (const auto& [place, of] : t.rows) {
        const ScalingCell nothing, *c = of.count("Convoy") ? of.at("Convoy") : &nothing;
        std::vector<std::string> row = {std::to_string(place.second) + "-" + std::to_string(place.first),
                                        rate_or(c->run, "%.2f", "-"), number_or(c->speed_up, "%.1f", "-"),
                                        number_or(100 * c->efficiency, "%.1f %%", "-")};
        if (t.expected) row.insert(row.end(), {number_or(c->expected, "%.2f", "-"), c->limit.empty() ? "-" : c->limit});
        for (const std::string& source : t.published) {
            const auto p = of.find(source);
            row.push_back(p == of.end()
                              ? "-"
                              : rate_or(p->second->run, "%.2f", "-") + number_or(p->second->speed_up, " (%.1f)", ""));
        }
        table.rows.push_back(row);
    }
    const std::string title = title_of(group, t);
    return format == Format::markdown ? "### " + as_markdown_text(title) + "\n\n" + as_markdown(table)
                                      : title + "\n" + as_text(table);
}

bool any_expected(const std::vector<ScalingCell>& cells) {
    return std::any_of(cells.begin(), cells.end(), [](const ScalingCell& c) { return std::isfinite(c.expected); });
}

std::string as_json(const std::vector<ScalingCell>& cells) {
    auto all = nlohmann::ordered_json::array();
    const bool expected = any_expected(cells);
    for (const ScalingCell& c : cells) {
        all.push_back({{"source", c.run.source},
                       {"model", c.run.model},
                       {"precision", c.run.precision},
                       {"image_size", c.run.image_size},
                       {"classes", c.run.classes > 0 ? nlohmann::json(c.run.classes) : nlohmann::json()},
                       {"stem", c.run.stem},
                       {"device", c.run.device},
                       {"batch", c.run.batch},
                       {"nodes", c.run.nodes},
                       {"ranks", c.run.ranks},
                       {"runs", c.runs},
                       {"out_of_memory", c.run.out_of_memory},
                       {"to_do", c.run.to_do},
                       {"samples_per_second", c.run.samples_per_second},
                       {"speed_up", c.speed_up},
                       {"efficiency", c.efficiency}});
        if (!expected) continue;
        all.back()["expected_samples_per_second"] = c.expected;
        all.back()["expected_limit"] = c.limit;
    }
    return all.dump(1) + "\n";
}

std::string as_lines(const std::vector<ScalingCell>& cells) {
    TextTable table{{"source", "model", "precision", "image_size", "classes", "stem", "device", "batch", "nodes",
                     "ranks", "runs", "samples_per_second", "speed_up", "efficiency"},
                    {}};
    const bool expected = any_expected(cells);
    if (expected) table.header.insert(table.header.end(), {"expected_samples_per_second", "expected_limit"});
    for (const ScalingCell& c : cells) {
        table.rows.push_back({c.run.source, c.run.model, c.run.precision, c.run.image_size,
                              c.run.classes > 0 ? std::to_string(c.run.classes) : "", c.run.stem, c.run.device,
                              std::to_string(c.run.batch), std::to_string(c.run.nodes), std::to_string(c.run.ranks),
                              std::to_string(c.runs), rate_or(c.run, "%.10g", ""), number_or(c.speed_up, "%.4f", ""),
                              number_or(c.efficiency, "%.4f", "")});
        if (expected) table.rows.back().insert(table.rows.back().end(), {number_or(c.expected, "%.10g", ""), c.limit});
    }
    return as_csv(table);
}

}  // namespace

std::string scaling_as(const std::vector<ScalingCell>& cells, Format format) {
    if (format == Format::json) return as_json(cells);
    if (format == Format::csv) return as_lines(cells);
    std::string text;
    for (auto first = cells.begin(); first != cells.end();) {
        const auto last =
            std::find_if(first, cells.end(), [&](const ScalingCell& c) { return !same_table(c.run, first->run); });
        text += (text.empty() ? "" : "\n") + table_of({first, last}, format);
        first = last;
    }
    return text;
}

}  // namespace convoy
