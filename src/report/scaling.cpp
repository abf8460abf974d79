// Computes the cells of the scaling table: groups the runs, and finds published figures that
// compare with them.
#include "report/scaling.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/quantile.h"
#include "base/shorten.h"
#include "base/text.h"
#include "model/models.h"

namespace convoy {
namespace {

/// Returns the properties that all runs of a table share.
auto group_of(const ScalingRun& r) {
    return std::tuple(r.model, r.beside.empty() ? r.precision : r.beside, r.image_size, r.stem, r.classes, r.device,
                      r.batch);
}
auto order_of(const ScalingRun& r) { return std::tuple(group_of(r), r.source != "Convoy", r.source, r.ranks, r.nodes); }

bool agree(const std::string& a, const std::string& b) { return a.empty() || b.empty() || a == b; }
bool agree(int64_t a, int64_t b) { return a == 0 || b == 0 || a == b; }

/// Returns true if two runs do the same work per image, as far as that is known.
bool same_size(const ScalingRun& a, const ScalingRun& b) {
    return agree(a.image_size, b.image_size) && agree(a.classes, b.classes) && agree(a.stem, b.stem);
}

void refuse_mixed_sizes(const std::vector<ScalingRun>& runs) {
    for (const ScalingRun& r : runs) {
        const auto other = std::find_if(runs.begin(), runs.end(), [&](const ScalingRun& o) {
            return o.model == r.model && !r.model.empty() && !same_size(o, r);
        });
        if (other == runs.end()) continue;
        fail(Exit::usage, r.run + " is " + r.model + " on " + work_text(r) + ", but " + other->run + " on " +
                              work_text(*other) + ": their images/s do not compare; give --scaling runs of one size");
    }
}

/// Fills in values that an out-of-memory run did not record. They come from another run whose
/// model, precision, size and device agree, as far as they are known.
void complete(std::vector<ScalingRun>& runs) {
    for (ScalingRun& r : runs) {
        if (!r.out_of_memory) continue;
        const auto fits = [&](const ScalingRun& other) {
            return !other.out_of_memory && agree(r.model, other.model) && agree(r.precision, other.precision) &&
                   same_size(r, other) && agree(r.device, other.device);
        };
        // Prefer a run with the same batch; if there is none, all runs of that batch ran out of
        // memory.
        auto like = std::find_if(runs.begin(), runs.end(),
                                 [&](const ScalingRun& other) { return fits(other) && other.batch == r.batch; });
        if (like == runs.end()) like = std::find_if(runs.begin(), runs.end(), fits);
        if (like == runs.end()) continue;
        for (auto field : {&ScalingRun::model, &ScalingRun::precision, &ScalingRun::image_size, &ScalingRun::stem,
                           &ScalingRun::device})
            if ((r.*field).empty()) r.*field = (*like).*field;
        if (r.classes == 0) r.classes = like->classes;
    }
}

/// Sets speed-ups relative to the first cell with a figure. [first, last) are the cells of one
/// source in one table, sorted by number of ranks.
void compare(std::vector<ScalingCell>::iterator first, std::vector<ScalingCell>::iterator last) {
    const auto base =
        std::find_if(first, last, [](const ScalingCell& c) { return std::isfinite(c.run.samples_per_second); });
    for (auto c = base; c != last; ++c) {
        c->base_ranks = base->run.ranks;
        c->speed_up = c->run.samples_per_second / base->run.samples_per_second;
        c->efficiency = c->speed_up * double(base->run.ranks) / double(c->run.ranks);
    }
}

/// Returns true if a published figure compares with a run: both do the same work per image, with
/// one GPU per rank. The batch may differ.
bool comparable(const ScalingRun& r, const ScalingRun& p) {
    return r.model == p.model && r.image_size == p.image_size && same_size(r, p) && r.device == p.device;
}

/// Returns the published figures for the tables of `runs`. A figure is repeated in the tables of
/// all precisions.
std::vector<ScalingRun> published_beside(const std::vector<ScalingRun>& runs,
                                         const std::vector<ScalingRun>& published) {
    std::vector<ScalingRun> beside;
    for (const ScalingRun& p : published) {
        std::vector<decltype(group_of(p))> done;
        for (const ScalingRun& r : runs) {
            if (!comparable(r, p) || r.batch != p.batch ||
                std::find(done.begin(), done.end(), group_of(r)) != done.end())
                continue;
            done.push_back(group_of(r));
            beside.push_back(p);
            beside.back().beside = r.precision;
            beside.back().stem = r.stem;  // even if not known: other values would form a separate table
            beside.back().classes = r.classes;
        }
    }
    return beside;
}

/// Returns why no published figure of this model compares with the run. Empty if one does, or if
/// there are none.
std::string not_comparable(const ScalingRun& r, const std::vector<ScalingRun>& published) {
    const auto of_model = [&](const ScalingRun& p) { return p.model == r.model; };
    const auto p = std::find_if(published.begin(), published.end(), of_model);
    const auto fits = [&](const ScalingRun& other) { return comparable(r, other); };
    if (p == published.end() || std::any_of(published.begin(), published.end(), fits)) return "";
    return "not comparable with the published figures, which are of " + work_text(*p) + ", on GPUs";
}

}  // namespace

bool same_table(const ScalingRun& a, const ScalingRun& b) { return group_of(a) == group_of(b); }

std::string work_text(const ScalingRun& r) {
    std::string text = r.image_size.empty() ? "images of unknown size" : r.image_size + " images";
    if (r.classes > 0) text += ", " + grouped(size_t(r.classes)) + " classes";
    return r.stem.empty() ? text : text + ", " + r.stem + " stem";
}

std::vector<ScalingCell> scaling_cells(std::vector<ScalingRun> runs, const std::vector<ScalingRun>& published) {
    refuse_mixed_sizes(runs);
    complete(runs);
    const std::vector<ScalingRun> beside = published_beside(runs, published);
    runs.insert(runs.end(), beside.begin(), beside.end());
    std::stable_sort(runs.begin(), runs.end(),
                     [](const ScalingRun& a, const ScalingRun& b) { return order_of(a) < order_of(b); });

    std::vector<ScalingCell> cells;
    for (size_t i = 0, next = 0; i < runs.size(); i = next) {
        std::vector<double> rates;
        for (next = i; next < runs.size() && order_of(runs[next]) == order_of(runs[i]); ++next)
            if (!runs[next].out_of_memory && !runs[next].to_do) rates.push_back(runs[next].samples_per_second);
        cells.push_back({.run = runs[i], .runs = int64_t(rates.size())});
        cells.back().run.samples_per_second = median(rates);
        cells.back().run.out_of_memory = rates.empty() && !runs[i].to_do;
        if (!rates.empty()) cells.back().note = not_comparable(runs[i], published);
    }
    const auto same = [](const ScalingCell& a, const ScalingCell& b) {
        return same_table(a.run, b.run) && a.run.source == b.run.source;
    };
    for (auto c = cells.begin(); c != cells.end();) {
        const auto end = std::find_if(c, cells.end(), [&](const ScalingCell& other) { return !same(*c, other); });
        compare(c, end);
        c = end;
    }
    return cells;
}

std::vector<ScalingRun> read_published(const std::string& path) {
    // A table of text has a cell for each row and source, and is as wide as its longest names.
    constexpr size_t most_rows = 1000, most_sources = 50, longest_name = 100;
    constexpr int64_t most = 1 << 24;
    std::istringstream in(text_of_input(path, 1 << 20, "check --published"));
    std::vector<ScalingRun> runs;
    std::set<std::string> sources;
    std::string line;
    bool header = true;
    for (int number = 1; std::getline(in, line); ++number) {
        if (line.empty() || line[0] == '#' || std::exchange(header, false)) continue;
        ScalingRun r;
        std::istringstream words(printable(line));
        std::string classes, batch, nodes, gpus, rate, rest;
        for (std::string* word :
             {&r.source, &r.model, &r.precision, &r.image_size, &classes, &batch, &nodes, &gpus, &rate})
            std::getline(words, *word, ',');
        try {
            r.classes = std::stoll(classes);
            r.batch = std::stoll(batch);
            r.nodes = std::stoll(nodes);
            r.ranks = std::stoll(gpus);
            r.out_of_memory = rate == "OOM";
            r.to_do = rate == "TODO";
            if (!r.out_of_memory && !r.to_do) r.samples_per_second = std::stod(rate);
        } catch (const std::exception&) {
            r.ranks = 0;
        }
        const bool known = r.samples_per_second > 0 || r.out_of_memory || r.to_do;
        const auto counts = {r.classes, r.batch, r.nodes, r.ranks};
        if (std::min(counts) < 1 || std::max(counts) > most || !known || std::getline(words, rest))
            fail(Exit::bad_input,
                 path + ":" + std::to_string(number) +
                     ": is not source,model,precision,image_size,classes,batch_per_gpu,nodes,gpus,samples_per_second "
                     "(a number, OOM or TODO)");
        r.stem = stem_of({.name = r.model, .h = std::atoi(r.image_size.c_str())});
        r.device = "gpu";
        for (std::string* name : {&r.source, &r.model, &r.precision, &r.image_size})
            *name = shortened(*name, longest_name);
        runs.push_back(r);
        sources.insert(r.source);
        if (runs.size() > most_rows || sources.size() > most_sources)
            fail(Exit::bad_input, formatted("%s:%d: is one too many; leave all but %zu rows of at most %zu sources out",
                                            path.c_str(), number, most_rows, most_sources));
    }
    return runs;
}

}  // namespace convoy
