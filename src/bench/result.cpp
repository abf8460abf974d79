#include "bench/result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/quantile.h"
#include "base/table.h"
#include "base/text.h"
#include "base/version.h"

namespace convoy {

std::vector<OpClass> by_class(const std::vector<LaunchTime>& times, const Graph& graph, const WorkByClass& work) {
    // If a backend fuses two ops into a launch, the work of both counts for the launch's class.
    std::map<std::string, std::string> whole;  // class of an op -> class of the fused launch
    for (const LaunchTime& t : times)
        for (const std::string& part : parts_of_launch(t.launch, graph)) whole[part] = class_of_launch(t.launch, graph);
    const auto counted_as = [&](const std::string& name) {
        const auto found = whole.find(name);
        return found == whole.end() ? name : found->second;
    };
    std::map<std::string, OpClass> by_name;
    for (const LaunchTime& t : times) {
        OpClass& c = by_name[counted_as(class_of_launch(t.launch, graph))];
        c.seconds += t.seconds;
    }
    for (const auto& [name, counted] : work) {
        const auto found = by_name.find(counted_as(name));
        if (found == by_name.end()) continue;
        Work& all = found->second.work;
        all.flops += counted.flops;
        all.bytes += counted.bytes;
        all.typed += counted.typed;
        all.f32 += counted.f32;
    }
    std::vector<OpClass> classes;
    for (auto& [name, c] : by_name) {
        c.name = name;
        classes.push_back(c);
    }
    std::stable_sort(classes.begin(), classes.end(),
                     [](const OpClass& a, const OpClass& b) { return a.seconds > b.seconds; });
    return classes;
}

namespace {

double sum_of(const std::vector<OpClass>& classes) {
    double sum = 0;
    for (const OpClass& c : classes) sum += c.seconds;
    return sum;
}

double seconds_multiplying(const Work& work, const Ceilings& ceilings) {
    const double typed = ceilings.flops > 0 ? work.typed / ceilings.flops : 0;
    return typed + (ceilings.f32_flops > 0 ? work.f32 / ceilings.f32_flops : 0);
}

std::string class_table(const std::vector<OpClass>& classes, const Ceilings& ceilings) {
    const double all = sum_of(classes);
    TextTable table{{"class of operations", "ms per step", "share", "GFLOP/s", "of peak", "MB", "GB/s", "of copy"}, {}};
    for (const OpClass& c : classes) {
        const auto rate = [&](double amount) {
            return amount > 0 && c.seconds > 0 ? formatted("%.1f", amount / c.seconds / 1e9) : std::string("-");
        };
        const auto part = [&](double at_the_ceiling) {
            return at_the_ceiling > 0 && c.seconds > 0 ? formatted("%.0f %%", 100 * at_the_ceiling / c.seconds)
                                                       : std::string("-");
        };
        table.rows.push_back({c.name, formatted("%.3f", 1e3 * c.seconds), formatted("%.1f %%", 100 * c.seconds / all),
                              rate(c.work.flops), part(seconds_multiplying(c.work, ceilings)),
                              c.work.bytes > 0 ? formatted("%.2f", c.work.bytes / 1e6) : "-", rate(c.work.bytes),
                              part(ceilings.bytes > 0 ? c.work.bytes / ceilings.bytes : 0)});
    }
    table.rows.push_back({"all", formatted("%.3f", 1e3 * all), "100.0 %", "", "", "", "", ""});
    return as_text(table);
}

}  // namespace

double roofline_seconds(const BenchResult& r) {
    if (r.ceilings.flops <= 0 || r.ceilings.bytes <= 0) return 0;
    double seconds = 0;
    for (const OpClass& c : r.classes_of_operations)
        if (c.name != "all-reduce")
            seconds += std::max(seconds_multiplying(c.work, r.ceilings), c.work.bytes / r.ceilings.bytes);
    return seconds;
}

std::string bench_text(const BenchResult& r) {
    const auto count = [](int64_t n, const char* what) {
        return formatted("%lld %s%s", (long long)n, what, n == 1 ? "" : "s");
    };
    std::string text =
        formatted("bench     %s, %s, %s images of %s, %lld classes: %s on %s, batch %lld per rank, %lld in all%s\n",
                  r.model.c_str(), r.precision.c_str(), r.data.c_str(), r.image_size.c_str(), (long long)r.classes,
                  count(r.ranks, "rank").c_str(), count(r.hosts, "host").c_str(), (long long)r.batch_per_rank,
                  (long long)r.global_batch,
                  r.logical_ranks > 0 ? (" of " + count(r.logical_ranks, "logical rank")).c_str() : "");
    text += formatted("device    %s, %s per rank\n", r.device.c_str(), count(r.threads, "thread").c_str());
    text += formatted("steps     %zu, after %lld of warm-up\n", r.images_per_second.size(), (long long)r.warmup);
    const bool known = std::isfinite(r.images_per_second_wall);
    const std::string wall = known ? formatted("%.1f", r.images_per_second_wall) : "-";
    text +=
        formatted("images/s  %s (all ranks, over wall time); by step: median %.1f, p10 %.1f, p90 %.1f\n", wall.c_str(),
                  median(r.images_per_second), quantile(r.images_per_second, 0.1), quantile(r.images_per_second, 0.9));
    text += formatted(
        "step      %.3f ms: data wait %.3f, compute %.3f, exposed communication %.3f (medians, mean over ranks)\n",
        1e3 * r.median.step, 1e3 * r.median.data, 1e3 * r.median.compute, 1e3 * r.median.exposed);
    if (std::isfinite(r.expected_images_per_second))
        text += formatted("expected  %.1f images/s by the cluster file, limited by %s: measured is %.0f %% of it\n",
                          r.expected_images_per_second, r.expected_limit.c_str(),
                          100 * median(r.images_per_second) / r.expected_images_per_second);
    text += formatted(
        "work      %.4f GFLOP per image forward and backward, %.1f GFLOP/s; peak memory %.1f MiB per rank\n",
        r.flops_per_image / 1e9, r.flops_per_image * median(r.images_per_second) / 1e9, r.peak_memory / (1 << 20));
    if (r.classes_of_operations.empty()) return text;
    const double least = roofline_seconds(r);
    if (least > 0)
        text += formatted(
            "ceilings  measured on rank 0: %.1f GFLOP/s multiplying%s, %.1f GB/s copying; at these rates, the work "
            "of the classes below takes %.3f ms, %.0f %% of a step\n",
            r.ceilings.flops / 1e9,
            r.ceilings.f32_flops > 0 ? formatted(" (%.1f in f32)", r.ceilings.f32_flops / 1e9).c_str() : "",
            r.ceilings.bytes / 1e9, 1e3 * least, 100 * least / r.median.step);
    text += "\neach operation by itself, nothing overlapping; GFLOP and MB counted from the shapes:\n" +
            class_table(r.classes_of_operations, r.ceilings);
    return text;
}

std::string bench_json(const BenchResult& r) {
    nlohmann::ordered_json j;
    j["bench"] = r.model;
    j["precision"] = r.precision;
    j["device"] = r.device;
    j["device_kind"] = r.device_kind;
    j["data"] = r.data;
    j["image_size"] = r.image_size;
    j["classes"] = r.classes;
    j["parameters"] = r.parameters;
    j["ranks"] = r.ranks;
    j["hosts"] = r.hosts;
    j["threads"] = r.threads;
    j["batch_per_rank"] = r.batch_per_rank;
    j["global_batch"] = r.global_batch;
    if (r.logical_ranks > 0) j["logical_ranks"] = r.logical_ranks;
    j["warmup_steps"] = r.warmup;
    j["steps"] = r.images_per_second.size();
    j["images_per_second"] = {{"median", median(r.images_per_second)},
                              {"p10", quantile(r.images_per_second, 0.1)},
                              {"p90", quantile(r.images_per_second, 0.9)},
                              {"wall", r.images_per_second_wall}};
    j["step_seconds"] = r.median.step;
    j["data_seconds"] = r.median.data;
    j["compute_seconds"] = r.median.compute;
    j["comm_exposed_seconds"] = r.median.exposed;
    if (std::isfinite(r.expected_images_per_second))
        j["expected"] = {{"images_per_second", r.expected_images_per_second}, {"limit", r.expected_limit}};
    j["peak_memory_bytes"] = r.peak_memory;
    j["flops_per_image"] = r.flops_per_image;
    j["flops_per_second"] = r.flops_per_image * median(r.images_per_second);
    j["operations"] = nlohmann::ordered_json::array();
    for (const OpClass& c : r.classes_of_operations)
        j["operations"].push_back({{"class", c.name},
                                   {"seconds", c.seconds},
                                   {"flops", c.work.flops},
                                   {"bytes", c.work.bytes},
                                   {"multiplied_flops", c.work.typed},
                                   {"multiplied_f32_flops", c.work.f32}});
    if (!r.classes_of_operations.empty())
        j["ceilings"] = {{"flops_per_second", r.ceilings.flops},
                         {"f32_flops_per_second", r.ceilings.f32_flops},
                         {"bytes_per_second", r.ceilings.bytes},
                         {"roofline_seconds", roofline_seconds(r)}};
    for (const auto& [library, text] : r.versions) j["versions"][library] = text;
    for (const auto& [name, text] : r.environment) j["environment"][name] = text;
    j["version"] = version;
    j["commit"] = commit();
    return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace convoy
