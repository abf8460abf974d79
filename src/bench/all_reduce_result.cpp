#include "bench/all_reduce_result.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/quantile.h"
#include "base/text.h"
#include "base/version.h"

namespace convoy {
namespace {

constexpr size_t large = size_t(8) << 20;  // bytes; latency dominates below
constexpr double low = 0.8;

}  // namespace

std::string all_reduce_json(const AllReduceResult& r, const NcclTestsRun* run, double at_least) {
    nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
    for (const SizeTime& s : r.times.sizes) {
        const double algorithm = double(s.bytes) / s.seconds;
        sizes.push_back({{"bytes", s.bytes},
                         {"seconds", s.seconds},
                         {"algorithm_bandwidth", algorithm},
                         {"bus_bandwidth", algorithm * bus_factor(r.ranks)}});
    }
    nlohmann::ordered_json j;
    if (run) j = nccl_tests_json(*run, r.times, at_least);
    j["all_reduce"] = {{"ranks", r.ranks},
                       {"hosts", r.hosts},
                       {"ranks_per_host", r.ranks_per_host},
                       {"device", r.device},
                       {"device_kind", r.device_kind},
                       {"transport", r.transport},
                       {"sizes", sizes}};
    for (const auto& [library, text] : r.versions) j["versions"][library] = text;
    for (const auto& [name, text] : r.environment) j["environment"][name] = text;
    j[run ? "convoy_version" : "version"] = version;
    j["commit"] = commit();
    return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string verdict_on_all_reduces(const std::vector<SizeTime>& times, const ExpectedAllReduce& expected,
                                   bool by_nccl) {
    std::vector<double> ratios;
    for (const SizeTime& t : times)
        if (t.bytes >= large) ratios.push_back(expected(t.bytes) / t.seconds);
    if (ratios.empty()) return "no size is 8 MiB or more, where bandwidth decides: measure with --bytes 1M..1G";
    const double ratio = median(ratios);
    const std::string what = formatted("median ratio %.2f at 8 MiB and more", ratio);
    if (ratio >= low) return "as expected, or faster: " + what;
    return "slower than expected: " + what + "; usual causes: " +
           (by_nccl ? "sockets instead of verbs (see 'sums by' above), PCIe instead of NVLink, GPUDirect off, fewer "
                      "adapters than the file says; NCCL_DEBUG=INFO shows what NCCL found"
                    : "cores that others use, more ranks than cores, TCP where MPI could have InfiniBand or shared "
                      "memory");
}

std::string warning_of_falling_times(const std::vector<SizeTime>& times) {
    for (size_t i = 1; i < times.size(); ++i)
        if (times[i].seconds < times[i - 1].seconds)
            return formatted(
                "%zu bytes took longer than %zu: a cluster file does not take this table; measure with more "
                "--iterations, or from a larger size",
                times[i - 1].bytes, times[i].bytes);
    return "";
}

}  // namespace convoy
