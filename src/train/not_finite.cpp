#include "train/not_finite.h"

#include <algorithm>
#include <cstring>

namespace convoy {
namespace {

/// True if all numbers are finite. Infinities and NaN have all bits of `exponent` set.
template <class Bits> bool all_finite(const std::vector<char>& bytes, Bits exponent) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
        Bits v;
        std::memcpy(&v, bytes.data() + at, sizeof v);
        if ((v & exponent) == exponent) return false;
    }
    return true;
}

bool is_finite(TensorMemory& memory, const Tensor& t) {
    std::vector<char> host(t.bytes());
    memory.download(host.data(), t.data, t.bytes());
    if (t.dtype == DType::f32) return all_finite(host, uint32_t(0x7f800000));
    return all_finite(host, uint16_t(t.dtype == DType::f16 ? 0x7c00 : 0x7f80));
}

}  // namespace

std::string weight_not_finite(Comm& comm, TensorMemory& memory, const State& state) {
    std::string found;
    for (const NamedTensor& t : state.model())
        if (found.empty() && !is_finite(memory, t.tensor)) found = t.name;
    const std::vector<std::string> all = comm.gather_all(found);
    const auto first = std::ranges::find_if(all, [](const std::string& name) { return !name.empty(); });
    if (first == all.end()) return "";
    const bool everywhere = std::ranges::count(all, *first) == comm.size();
    return *first + (everywhere ? "" : " on rank " + std::to_string(first - all.begin()));
}

std::string output_not_finite(Comm& comm, Backend& backend, TrainingPrograms& programs, int64_t step) {
    programs.begin(step);
    programs.supply_batch(step);
    std::string found;
    size_t first = SIZE_MAX;
    for (const Program& part : programs.program_of(step).parts) {
        size_t at = 0, probe = 0;
        for (const Launch& launch : part.tape) {
            launch.run();
            ++at;
            for (; probe < part.probes.size() && part.probes[probe].after == at; ++probe) {
                backend.synchronize();
                if (first <= at || is_finite(backend, part.probes[probe].output)) continue;
                first = at;
                found = part.probes[probe].name;
            }
        }
    }
    const std::vector<std::string> all = comm.gather_all(found);
    const std::vector<double> places = comm.gather_all(std::vector<double>{double(first)});
    const size_t rank = size_t(std::min_element(places.begin(), places.end()) - places.begin());
    if (all[rank].empty()) return "no operation on any rank produced it, so it arose in the all-reduce";
    return "not finite first: the output of " + all[rank] + (comm.size() > 1 ? " on rank " + std::to_string(rank) : "");
}

}  // namespace convoy
