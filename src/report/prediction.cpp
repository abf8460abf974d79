#include "report/prediction.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/table.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr double mib = 1 << 20;

/// Returns true if the step on these ranks was measured, or comes from the cluster file.
bool is_given(const PredictedTable& t, const StepPrediction& p) {
    if (t.given.empty()) return p.nodes == 1 && p.ranks == t.step.ranks_of_times;
    return std::any_of(t.given.begin(), t.given.end(), [&](const MeasuredStep& s) {
        return s.nodes == p.nodes && s.ranks == p.ranks && s.batch == t.batch;
    });
}

/// Returns the smallest and the largest measured batch; both 0 if there is none.
std::pair<int64_t, int64_t> given_batches(const PredictedTable& t) {
    const auto by_batch = [](const MeasuredStep& a, const MeasuredStep& b) { return a.batch < b.batch; };
    const auto [least, most] = std::minmax_element(t.given.begin(), t.given.end(), by_batch);
    return t.given.empty() ? std::pair<int64_t, int64_t>{} : std::pair<int64_t, int64_t>{least->batch, most->batch};
}

/// Returns true if the line through the measured batches is extrapolated to this one.
bool is_extrapolated(const PredictedTable& t) {
    const auto [least, most] = given_batches(t);
    return least < most && (t.batch < least || t.batch > most);
}

Known known_of(const PredictedTable& t, const Cluster& c, const StepPrediction& p) {
    const auto other_batch = [&](const MeasuredStep& s) { return s.batch == t.given[0].batch && s.batch != t.batch; };
    const bool one_other_batch = !t.given.empty() && std::all_of(t.given.begin(), t.given.end(), other_batch);
    if (t.other_model || one_other_batch) return Known::unproven;
    if (is_given(t, p)) return Known::step;
    if (p.nodes == 1) return is_extrapolated(t) ? Known::batch : Known::node;
    if (t.step.network_measured) return is_extrapolated(t) ? Known::batch : Known::network;
    const bool all_reduces =
        std::any_of(c.all_reduces.begin(), c.all_reduces.end(), [](const MeasuredAllReduce& s) { return s.nodes > 1; });
    return all_reduces ? Known::all_reduces : Known::nodes;
}

const char* name_of(Known known) {
    switch (known) {
        case Known::step: return "step given";
        case Known::node: return "one node";
        case Known::nodes: return "network not measured";
        case Known::all_reduces: return "sums measured";
        case Known::network: return "network measured";
        case Known::batch: return "batch beyond those measured";
        case Known::unproven: return "not validated";
    }
    return "";
}

void add_note(PredictedTable& t, const char* what, const Factor& f) {
    if (!f.measured())
        t.notes.push_back(
            formatted("%s was not measured: %g is assumed, between %g and %g", what, f.value, f.low, f.high));
}

std::string milliseconds(double seconds) { return formatted("%.3f", 1e3 * seconds); }

std::string error_text(Known known) {
    if (known == Known::unproven) return "unknown";
    return known == Known::step ? "-" : formatted("%.0f %%", 100 * usual_error(known));
}

std::string head_of(const PredictedTable& t) {
    double count = 0;
    for (const ReadyGradient& g : t.work.gradients) count += double(g.count);
    std::string head =
        formatted("%s, %s%s%s images, batch %lld per rank, predicted for %s\n", t.model.c_str(), t.precision.c_str(),
                  t.precision.empty() ? "" : ", ", t.image_size.c_str(), (long long)t.batch, t.cluster.c_str());
    return head + formatted("one rank alone: %s ms per step; %.1f MiB of gradients in buckets of %.3g MiB\n",
                            milliseconds(t.alone).c_str(), count * t.work.gradient_bytes / mib,
                            double(t.bucket_bytes) / mib);
}

TextTable table_of(const PredictedTable& t) {
    TextTable table{{"nodes-ranks", "step ms", "images/s", "from", "to", "speed-up", "efficiency", "exposed ms",
                     "limited by", "best bucket", "error (p90)"},
                    {}};
    for (const PredictedCell& c : t.cells) {
        const StepPrediction& p = c.likely;
        table.rows.push_back({std::to_string(p.nodes) + "-" + std::to_string(p.ranks), milliseconds(p.step),
                              formatted("%.0f", p.images_per_second), formatted("%.0f", c.worst.images_per_second),
                              formatted("%.0f", c.best.images_per_second), formatted("%.1f", c.speed_up),
                              formatted("%.1f %%", 100 * c.efficiency), milliseconds(p.exposed), name_of(p.limit),
                              p.ranks < 2 ? "-" : formatted("%.3g MiB", double(c.bucket_bytes) / mib),
                              error_text(c.known)});
    }
    return table;
}

nlohmann::ordered_json json_of(const PredictedTable& t, const PredictedCell& c) {
    const StepPrediction& p = c.likely;
    nlohmann::ordered_json j = {{"source", "predicted"},
                                {"model", t.model},
                                {"precision", t.precision},
                                {"image_size", t.image_size},
                                {"classes", t.classes},
                                {"stem", ""},
                                {"device", "gpu"},
                                {"cluster", t.cluster},
                                {"batch", t.batch},
                                {"nodes", p.nodes},
                                {"ranks", p.ranks},
                                {"runs", 0},
                                {"out_of_memory", false},
                                {"to_do", false},
                                {"samples_per_second", p.images_per_second},
                                {"speed_up", c.speed_up},
                                {"efficiency", c.efficiency}};
    j["samples_per_second_low"] = c.worst.images_per_second;
    j["samples_per_second_high"] = c.best.images_per_second;
    j["step_seconds"] = p.step;
    j["compute_seconds"] = p.compute;
    j["fixed_seconds"] = p.fixed;
    j["node_loss_seconds"] = p.node_loss;
    j["interference_seconds"] = p.interference;
    j["noise_seconds"] = p.noise;
    j["sums_seconds"] = p.all_reduces;
    j["comm_exposed_seconds"] = p.exposed;
    j["input_seconds"] = p.input;
    j["limit"] = name_of(p.limit);
    j["best_bucket_bytes"] = c.bucket_bytes;
    j["known"] = name_of(c.known);
    j["error_p90"] = nlohmann::json(usual_error(c.known));  // NaN: null
    return j;
}

std::string cell_text(const nlohmann::ordered_json& value) {
    if (value.is_null()) return "";
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string lines_of(const PredictedTable& t) {
    TextTable table;
    for (const PredictedCell& c : t.cells) {
        const nlohmann::ordered_json j = json_of(t, c);
        table.rows.emplace_back();
        for (const auto& [name, value] : j.items()) {
            if (table.rows.size() == 1) table.header.push_back(name);
            table.rows.back().push_back(cell_text(value));
        }
    }
    return as_csv(table);
}

std::string notes_of(const PredictedTable& t) {
    std::string text;
    for (const std::string& note : t.notes) text += note + "\n";
    return text;
}

}  // namespace

double usual_error(Known known) {
    switch (known) {
        case Known::step:
        case Known::unproven: return NAN;
        case Known::node: return 0.16;
        case Known::nodes:
        case Known::all_reduces: return 0.33;
        case Known::network: return 0.05;
        case Known::batch: return 0.22;
    }
    return NAN;
}

void predict_cells(PredictedTable& t, const Cluster& cluster, const std::vector<int>& ranks) {
    const StepPrediction alone = predict_step(t.step, t.work, cluster, 1);
    const double one = alone.images_per_second;
    t.alone = alone.step;
    for (const int n : ranks) {
        PredictedCell c{.likely = predict_step(t.step, t.work, cluster, n),
                        .worst = worst_step(t.step, t.work, cluster, n),
                        .best = best_step(t.step, t.work, cluster, n),
                        .bucket_bytes = best_bucket_bytes(t.step, t.work, cluster, n)};
        c.known = known_of(t, cluster, c.likely);
        c.speed_up = c.likely.images_per_second / one;
        c.efficiency = c.speed_up / n;
        t.cells.push_back(std::move(c));
    }
    if (ranks.back() > cluster.nodes * cluster.ranks_per_node)
        t.notes.push_back(
            formatted("%s has %d nodes: more nodes are assumed to be like them", cluster.name.c_str(), cluster.nodes));
    t.bucket_bytes =
        t.work.bucket_bytes > 0 ? t.work.bucket_bytes : usual_bucket_bytes(cluster, t.cells.back().likely.nodes);
    if (const auto [least, most] = given_batches(t); is_extrapolated(t))
        t.notes.push_back(
            formatted("batch %lld lies beyond those that were measured (%lld to %lld): its time is extrapolated",
                      (long long)t.batch, (long long)least, (long long)most));
    add_note(t, "the loss of a full node (h)", t.step.host_loss);
    add_note(t, "the slowdown of compute by all-reduces (kappa)", t.step.interference);
    add_note(t, "the spread of ranks (s)", t.step.spread);
    const auto unmeasured = [](const PredictedCell& c) { return c.known == Known::nodes; };
    if (std::any_of(t.cells.begin(), t.cells.end(), unmeasured))
        t.notes.emplace_back(
            "network not measured: give --from a run on two nodes, or an all-reduce-table of two nodes (convoy "
            "comm-test --json)");
}

std::string prediction_as(const PredictedTable& t, Format format) {
    if (format == Format::csv) return lines_of(t);
    if (format == Format::json) {
        auto all = nlohmann::ordered_json::array();
        for (const PredictedCell& c : t.cells) all.push_back(json_of(t, c));
        return all.dump(1) + "\n";
    }
    if (format == Format::markdown)
        return "### " + as_markdown_text(head_of(t)) + "\n" + as_markdown(table_of(t)) + "\n" +
               as_markdown_text(notes_of(t));
    return head_of(t) + as_text(table_of(t)) + notes_of(t) +
           "error (p90): nine of ten such predictions of published runs had a smaller error\n";
}

std::string prediction_explained(const PredictedTable& t) {
    std::string text;
    for (const PredictedCell& c : t.cells) {
        const StepPrediction& p = c.likely;
        text += formatted(
            "\n%d rank%s on %d node%s: step %s ms\n"
            "  compute %s, fixed %s, full node %s, interference %s, slowest rank %s, exposed all-reduces %s, input %s "
            "ms\n",
            p.ranks, p.ranks == 1 ? "" : "s", p.nodes, p.nodes == 1 ? "" : "s", milliseconds(p.step).c_str(),
            milliseconds(p.compute).c_str(), milliseconds(p.fixed).c_str(), milliseconds(p.node_loss).c_str(),
            milliseconds(p.interference).c_str(), milliseconds(p.noise).c_str(), milliseconds(p.exposed).c_str(),
            milliseconds(p.input).c_str());
        for (const PredictedAllReduce& bucket : p.buckets)
            text += formatted("  bucket of %.1f MiB: complete at %s ms, all-reduced in %s ms (%s%s%s%s), until %s ms\n",
                              bucket.bytes / mib, milliseconds(bucket.ready).c_str(),
                              milliseconds(bucket.time.seconds).c_str(), bucket.time.algorithm,
                              *bucket.time.protocol ? " " : "", bucket.time.protocol,
                              bucket.time.measured ? ", as measured" : "", milliseconds(bucket.end).c_str());
    }
    return text;
}

}  // namespace convoy
