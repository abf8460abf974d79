#include "cli/scaling.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/quantile.h"
#include "cli/table.h"

namespace convoy {
namespace {

/// What the runs of one table have in common.
auto group_of(const ScalingRun& r) { return std::tuple(r.model, r.beside.empty() ? r.precision : r.beside, r.image_size, r.batch); }
auto order_of(const ScalingRun& r) { return std::tuple(group_of(r), r.source != "Convoy", r.source, r.gpus, r.nodes); }

/// What a run without memory left open is taken from a run of the same batch that agrees in the rest.
void complete(std::vector<ScalingRun>& runs) {
    for (ScalingRun& r : runs) {
        if (!r.out_of_memory) continue;
        const auto agree = [](const std::string& a, const std::string& b) { return a.empty() || b.empty() || a == b; };
        const auto fits = [&](const ScalingRun& other) {
            return !other.out_of_memory && agree(r.model, other.model) && agree(r.precision, other.precision) && agree(r.image_size, other.image_size);
        };
        // Of the same batch if there is one: else its whole table ran out of memory.
        auto like = std::find_if(runs.begin(), runs.end(), [&](const ScalingRun& other) { return fits(other) && other.batch == r.batch; });
        if (like == runs.end()) like = std::find_if(runs.begin(), runs.end(), fits);
        if (like == runs.end()) continue;
        for (auto field : {&ScalingRun::model, &ScalingRun::precision, &ScalingRun::image_size})
            if ((r.*field).empty()) r.*field = (*like).*field;
    }
}

/// Over the first cell with a figure; `first` to `last` are the cells of one source in one table, by number of GPUs.
void compare(std::vector<ScalingCell>::iterator first, std::vector<ScalingCell>::iterator last) {
    const auto base = std::find_if(first, last, [](const ScalingCell& c) { return std::isfinite(c.run.samples_per_second); });
    for (auto c = base; c != last; ++c) {
        c->base_gpus = base->run.gpus;
        c->speed_up = c->run.samples_per_second / base->run.samples_per_second;
        c->efficiency = c->speed_up * double(base->run.gpus) / double(c->run.gpus);
    }
}

}  // namespace

std::vector<ScalingCell> scaling_cells(std::vector<ScalingRun> runs, const std::vector<ScalingRun>& published) {
    complete(runs);
    std::vector<ScalingRun> beside;
    for (const ScalingRun& p : published) {
        std::vector<std::string> done;  // the published ones stand beside each precision
        for (const ScalingRun& r : runs) {
            if (r.model != p.model || r.image_size != p.image_size || r.batch != p.batch || std::find(done.begin(), done.end(), r.precision) != done.end()) continue;
            done.push_back(r.precision);
            beside.push_back(p);
            beside.back().beside = r.precision;
        }
    }
    runs.insert(runs.end(), beside.begin(), beside.end());
    std::stable_sort(runs.begin(), runs.end(), [](const ScalingRun& a, const ScalingRun& b) { return order_of(a) < order_of(b); });

    std::vector<ScalingCell> cells;
    for (size_t i = 0, next = 0; i < runs.size(); i = next) {
        std::vector<double> rates;
        for (next = i; next < runs.size() && order_of(runs[next]) == order_of(runs[i]); ++next)
            if (!runs[next].out_of_memory) rates.push_back(runs[next].samples_per_second);
        cells.push_back({runs[i], int64_t(rates.size())});
        cells.back().run.samples_per_second = median(rates);
        cells.back().run.out_of_memory = rates.empty();
    }
    const auto same = [](const ScalingCell& a, const ScalingCell& b) { return group_of(a.run) == group_of(b.run) && a.run.source == b.run.source; };
    for (auto c = cells.begin(); c != cells.end();) {
        const auto end = std::find_if(c, cells.end(), [&](const ScalingCell& other) { return !same(*c, other); });
        compare(c, end);
        c = end;
    }
    return cells;
}

std::vector<ScalingRun> read_published(const std::string& path) {
    std::ifstream in(path);
    if (!in) fail(Exit::bad_input, path + ": cannot be read; check --published");
    std::vector<ScalingRun> runs;
    std::string line;
    bool header = true;
    for (int number = 1; std::getline(in, line); ++number) {
        if (line.empty() || line[0] == '#' || std::exchange(header, false)) continue;
        ScalingRun r;
        std::istringstream words(line);
        std::string batch, nodes, gpus, rate, rest;
        for (std::string* word : {&r.source, &r.model, &r.precision, &r.image_size, &batch, &nodes, &gpus, &rate}) std::getline(words, *word, ',');
        try {
            r.batch = std::stoll(batch), r.nodes = std::stoll(nodes), r.gpus = std::stoll(gpus), r.samples_per_second = std::stod(rate);
        } catch (const std::exception&) {
            r.gpus = 0;
        }
        if (r.batch < 1 || r.nodes < 1 || r.gpus < 1 || !(r.samples_per_second > 0) || std::getline(words, rest))
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": is not source,model,precision,image_size,batch_per_gpu,nodes,gpus,samples_per_second");
        runs.push_back(r);
    }
    return runs;
}

namespace {

std::string number_or(double v, const char* pattern, const std::string& otherwise) {
    char text[64];
    if (!std::isfinite(v)) return otherwise;
    std::snprintf(text, sizeof text, pattern, v);
    return text;
}

/// The cells of one table: a row a number of nodes and GPUs.
std::string table_of(const std::vector<ScalingCell>& cells, Format format) {
    const ScalingRun& group = cells.front().run;
    const auto known = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
    int64_t most_runs = 0, base = 0;
    std::map<std::pair<int64_t, int64_t>, std::map<std::string, const ScalingCell*>> rows;  // (GPUs, nodes) -> source -> cell
    std::vector<std::string> published;
    std::string theirs;  // precision
    for (const ScalingCell& c : cells) {
        rows[{c.run.gpus, c.run.nodes}][c.run.source] = &c;
        if (c.run.source == "Convoy") {
            most_runs = std::max(most_runs, c.runs);
            if (c.base_gpus) base = c.base_gpus;
        } else if (theirs = c.run.precision; std::find(published.begin(), published.end(), c.run.source) == published.end()) {
            published.push_back(c.run.source);
        }
    }
    std::string title = known(group.model) + ", " + known(group.precision) + ", " + known(group.image_size) + ", batch " + std::to_string(group.batch) + " a GPU";
    if (most_runs > 1) title += "; medians of up to " + std::to_string(most_runs) + " runs";
    if (base > 1) title += "; speed-up over " + std::to_string(base) + " GPUs";
    if (!published.empty()) title += "; published, " + theirs + ": samples/s (speed-up)";

    TextTable table{{"nodes-GPUs", "samples/s", "speed-up", "efficiency"}, {}};
    table.header.insert(table.header.end(), published.begin(), published.end());
    for (const auto& [place, of] : rows) {
        const ScalingCell nothing, *c = of.count("Convoy") ? of.at("Convoy") : &nothing;
        std::vector<std::string> row = {std::to_string(place.second) + "-" + std::to_string(place.first),
                                        c->run.out_of_memory ? "OOM" : number_or(c->run.samples_per_second, "%.2f", "-"), number_or(c->speed_up, "%.1f", "-"),
                                        number_or(100 * c->efficiency, "%.1f %%", "-")};
        for (const std::string& source : published) {
            const auto p = of.find(source);
            row.push_back(p == of.end() ? "-" : number_or(p->second->run.samples_per_second, "%.2f", "-") + number_or(p->second->speed_up, " (%.1f)", ""));
        }
        table.rows.push_back(row);
    }
    return format == Format::markdown ? "### " + title + "\n\n" + as_markdown(table) : title + "\n" + as_text(table);
}

}  // namespace

std::string scaling_as(const std::vector<ScalingCell>& cells, Format format) {
    if (format == Format::json) {
        auto all = nlohmann::ordered_json::array();
        for (const ScalingCell& c : cells)
            all.push_back({{"source", c.run.source}, {"model", c.run.model}, {"precision", c.run.precision}, {"image_size", c.run.image_size},
                           {"batch", c.run.batch}, {"nodes", c.run.nodes}, {"gpus", c.run.gpus}, {"runs", c.runs}, {"out_of_memory", c.run.out_of_memory},
                           {"samples_per_second", c.run.samples_per_second}, {"speed_up", c.speed_up}, {"efficiency", c.efficiency}});
        return all.dump(1) + "\n";
    }
    if (format == Format::csv) {
        TextTable table{{"source", "model", "precision", "image_size", "batch", "nodes", "gpus", "runs", "samples_per_second", "speed_up", "efficiency"}, {}};
        for (const ScalingCell& c : cells)
            table.rows.push_back({c.run.source, c.run.model, c.run.precision, c.run.image_size, std::to_string(c.run.batch), std::to_string(c.run.nodes),
                                  std::to_string(c.run.gpus), std::to_string(c.runs), c.run.out_of_memory ? "OOM" : number_or(c.run.samples_per_second, "%.10g", ""),
                                  number_or(c.speed_up, "%.4f", ""), number_or(c.efficiency, "%.4f", "")});
        return as_csv(table);
    }
    std::string text;
    for (auto first = cells.begin(); first != cells.end();) {
        const auto last = std::find_if(first, cells.end(), [&](const ScalingCell& c) { return group_of(c.run) != group_of(first->run); });
        text += (text.empty() ? "" : "\n") + table_of({first, last}, format);
        first = last;
    }
    return text;
}

}  // namespace convoy
