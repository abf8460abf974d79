#include "bench/nccl_tests.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/version.h"

namespace convoy {
namespace {

constexpr const char* program = "convoy comm-test";
constexpr const char* no_address = "0000:00:00";  // PCI addresses are not recorded
constexpr double giga = 1e9;

/// Formats a number in at most `width` characters: with two decimals, or fewer if these do not fit,
/// or else with an exponent.
std::string fitted(double value, int width) {
    for (const int decimals : {2, 1, 0})
        if (const std::string text = formatted("%*.*f", width, decimals, value); int(text.size()) <= width) return text;
    return formatted("%*.*e", width, width >= 7 ? 1 : 0, value);
}

double algorithm_bandwidth(size_t bytes, double seconds) { return double(bytes) / seconds / giga; }

std::string columns(size_t bytes, double seconds, int64_t wrong, int ranks) {
    const double algorithm = algorithm_bandwidth(bytes, seconds);
    return formatted("  %7s  %6s  %6s  %6g", fitted(1e6 * seconds, 7).c_str(), fitted(algorithm, 6).c_str(),
                     fitted(algorithm * bus_factor(ranks), 6).c_str(), double(wrong));
}

nlohmann::ordered_json columns_json(size_t bytes, double seconds, int64_t wrong, int ranks) {
    const double algorithm = algorithm_bandwidth(bytes, seconds);
    return {{"time", 1e6 * seconds},
            {"alg_bw", algorithm},
            {"bus_bw", algorithm * bus_factor(ranks)},
            {"nwrong", double(wrong)}};
}

/// nccl-tests writes Booleans as text.
const char* truth(bool value) { return value ? "true" : "false"; }

nlohmann::ordered_json config_json(const NcclTestsRun& run) {
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
        const NcclTestsRank& r = run.ranks[rank];
        devices.push_back({{"rank", rank},
                           {"group", 0},
                           {"pid", r.process},
                           {"hostname", r.host},
                           {"device", r.device},
                           {"device_hex", no_address},
                           {"device_info", r.name}});
    }
    return {{"nthreads", 1},
            {"ngpus", 1},
            {"minimum_bytes", run.smallest},
            {"maximum_bytes", run.largest},
            {"step_factor", 2},
            {"warmup_iters", all_reduce_warmup},
            {"iterations", run.iterations},
            {"aggregated_iterations", 1},
            {"validation", 1},
            {"graph", int(run.graph)},
            {"blocking_collectives", truth(false)},
            {"per_iter_timing", truth(false)},
            {"per_iter_skip", 0},
            {"parallel_init", truth(false)},
            {"devices", devices}};
}

}  // namespace

int nccl_version_code(const std::string& text) {
    int major = 0, minor = 0, patch = 0;
    if (std::sscanf(text.c_str(), "%d.%d.%d", &major, &minor, &patch) != 3) return 0;
    return major * 10000 + minor * 100 + patch;
}

std::string nccl_tests_header(const NcclTestsRun& run) {
    std::string text = formatted("# convoy %s, lines of nccl-tests version 2.19.6 nccl-headers=%d nccl-library=%d\n",
                                 version, run.nccl, run.nccl);
    text += formatted("# Collective test starting: %s\n", program);
    text += formatted(
        "# nThread 1 nGpus 1 minBytes %zu maxBytes %zu step: 2(factor) warmup iters: %d iters: %lld agg iters: 1 "
        "validation: 1 graph: %d unalign: 0\n",
        run.smallest, run.largest, all_reduce_warmup, (long long)run.iterations, int(run.graph));
    text += "# Times are the slowest rank's (-a 3), not the mean over ranks\n#\n# Using devices\n";
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
        const NcclTestsRank& r = run.ranks[rank];
        text += formatted("#  Rank %2zu Group %2d Pid %6lld on %10s device %2d [%s] %s\n", rank, 0,
                          (long long)r.process, r.host.c_str(), r.device, no_address, r.name.c_str());
    }
    text += "#\n";
    text += formatted("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n",
                      "", "", "", "", "");
    const auto line = [&](const std::vector<const char*>& words) {
        text += formatted("# %10s  %12s  %8s  %6s  %6s", words[0], words[1], words[2], words[3], words[4]);
        for (int place = 0; place < 2; ++place)
            text += formatted("  %7s  %6s  %6s  %6s", words[5], words[6], words[7], words[8]);
        text += " \n";
    };
    line({"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"});
    line({"(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", ""});
    return text;
}

std::string nccl_tests_row(const SizeTime& s, int ranks) {
    return formatted("%12zu  %12zu  %8s  %6s  %6d", s.bytes, s.bytes / sizeof(float), "float", "sum", -1) +
           columns(s.bytes, s.out_of_place_seconds, s.out_of_place_wrong, ranks) +
           columns(s.bytes, s.seconds, s.wrong, ranks) + "\n";
}

std::string nccl_tests_footer(const SizeTimes& times, int ranks, double at_least) {
    const double mean = mean_bus_bandwidth(times.sizes, ranks) / giga;
    const char* verdict = std::isnan(at_least) ? "" : mean < at_least ? "FAILED" : "OK";
    return formatted("# %-20s : %lld %s\n", "Out of bounds values", (long long)times.failures,
                     times.failures ? "FAILED" : "OK") +
           formatted("# %-20s : %g %s\n", "Avg bus bandwidth", mean, verdict) +
           formatted("#\n# Collective test concluded: %s\n#\n\n", program);
}

nlohmann::ordered_json nccl_tests_json(const NcclTestsRun& run, const SizeTimes& times, double at_least) {
    const int ranks = int(run.ranks.size());
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (const SizeTime& s : times.sizes)
        results.push_back({{"size", s.bytes},
                           {"count", s.bytes / sizeof(float)},
                           {"type", "float"},
                           {"redop", "sum"},
                           {"root", formatted("%6d", -1)},
                           {"out_of_place", columns_json(s.bytes, s.out_of_place_seconds, s.out_of_place_wrong, ranks)},
                           {"in_place", columns_json(s.bytes, s.seconds, s.wrong, ranks)},
                           {"actual_iterations", run.iterations},
                           {"experiment_name", ""}});
    const double mean = mean_bus_bandwidth(times.sizes, ranks) / giga;
    return {{"version", 3},
            {"start_time", run.start_time},
            {"args", run.command_line},
            {"env", nlohmann::ordered_json::array()},
            {"nccl_version", run.nccl},
            {"config", config_json(run)},
            {"results", results},
            {"out_of_bounds", {{"count", times.failures}, {"okay", truth(times.failures == 0)}}},
            {"average_bus_bandwidth",
             {{"bandwidth", mean}, {"okay", std::isnan(at_least) ? "unchecked" : truth(mean >= at_least)}}},
            {"errors", nlohmann::ordered_json::array()},
            {"end_time", run.end_time}};
}

}  // namespace convoy
