#include "cli/reframe_references.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "bench/all_reduces.h"
#include "plan/all_reduce_time.h"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

constexpr double slower_than_measured = 0.1;  // as `convoy accept` allows within devices of one kind
constexpr double slower_network = 0.2;        // as `convoy comm-test --cluster` allows
constexpr size_t reduced_bytes = 64 << 20;    // large, so that bandwidth decides and not latency

/// Returns a reference with a lower limit only. `slower`: allowed fraction below `value`; NaN: any.
Json reference(double value, double slower, const char* unit) { return {value, -slower, Json(), unit}; }

double slower_than(Known known) { return known == Known::step ? slower_than_measured : usual_error(known); }

Json bench_options(const PredictedTable& t) {
    Json options = {"--model",      t.model,      "--batch-per-rank", std::to_string(t.batch),
                    "--image-size", t.image_size, "--classes",        std::to_string(t.classes)};
    const auto add = [&](std::initializer_list<std::string> words) {
        for (const std::string& word : words) options.push_back(word);
    };
    if (!t.precision.empty()) add({"--precision", t.precision});
    if (t.work.gradient_bytes == 2) add({"--bf16-gradients"});
    if (t.work.bucket_bytes > 0) add({"--bucket-mib", formatted("%g", double(t.work.bucket_bytes) / (1 << 20))});
    return options;
}

}  // namespace

std::string reframe_references(const PredictedTable& t, const Cluster& cluster, const std::string& system, bool cpu) {
    Json all = Json::array();
    for (const PredictedCell& c : t.cells) {
        const StepPrediction& p = c.likely;
        const int per_node = p.ranks / p.nodes;
        Json cell = {{"system", system}, {"cluster", t.cluster}, {"model", t.model}};
        cell["device"] = cpu ? "cpu" : "cuda";
        cell["ranks"] = p.ranks;
        cell["ranks_per_node"] = per_node;
        cell["bench"] = {{"options", bench_options(t)},
                         {"reference", reference(p.images_per_second, slower_than(c.known), "images/s")}};
        const AllReduceTime sum = all_reduce_time(cluster, double(reduced_bytes), p.nodes, per_node);
        if (p.ranks > 1 && (sum.measured || !cpu)) {
            const double bandwidth = double(reduced_bytes) / sum.seconds * bus_factor(p.ranks);
            cell["comm-test"] = {{"options", {"--bytes", std::to_string(reduced_bytes)}},
                                 {"reference", reference(bandwidth / 1e9, slower_network, "GB/s")}};
        }
        all.push_back(std::move(cell));
    }
    return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // the cluster's name may not be UTF-8
}

}  // namespace convoy
