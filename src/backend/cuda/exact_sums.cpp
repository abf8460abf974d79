// Sums of the gradients of logical ranks as integers. Their all-reduces run like those of floats.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

/// Returns the table of ranges for [begin, end). It is created once, because all logical ranks and
/// programs have the same buckets.
CudaBackend::ExactRanges CudaBackend::exact_ranges(const ExactSums& s, size_t begin, size_t end) {
    constexpr size_t stripe = 4096;  // elements per thread block
    ExactRanges ranges{s.ranges(begin, end, stripe), nullptr};
    for (const ExactRanges& known : exact_ranges_)
        if (known.host == ranges.host) return known;
    for (const ExactRange& p : ranges.host)
        require(p.begin % 4 == 0 && p.end % 4 == 0, "parameters are padded to multiples of four");
    ranges.device = allocate(ranges.host.size() * sizeof(ExactRange));
    upload(ranges.device.get(), ranges.host.data(), ranges.host.size() * sizeof(ExactRange));
    return exact_ranges_.emplace_back(std::move(ranges));
}

void CudaBackend::accumulate_exact(const ExactSums& s, const float* gradients, size_t begin, size_t end, Tape& tape) {
    const std::string name = "accumulate " + std::to_string((end - begin) * sizeof(float) >> 10) + " KiB";
    append(tape, named_launch(LaunchPhase::other, name), [=, p = exact_ranges(s, begin, end)](cudaStream_t stream) {
        kernels::accumulate_exact(s, gradients, p.table(), p.count(), stream);
    });
}

void CudaBackend::allreduce(const ExactSums& s, size_t begin, size_t end, Tape& tape) {
    if (!all_reduce_) return;
    const std::string name = "all-reduce " + std::to_string((end - begin) * sizeof(int64_t) >> 10) + " KiB";
    tape.push_back({named_launch(LaunchPhase::all_reduce, name), Resource::communication,
                    [this, values = s.sums + begin, n = end - begin] { all_reduce_->start(values, n); }});
}

void CudaBackend::finalize_exact(const ExactSums& s, float* gradients, Tape& tape) {
    if (all_reduce_)
        tape.push_back({named_launch(LaunchPhase::all_reduce, "all-reduce of exponents"), Resource::communication,
                        [this, s] { all_reduce_->start_largest(s.seen, s.ends.size()); }});
    wait_allreduce(tape);
    append(tape, named_launch(LaunchPhase::other, "finalize sums"),
           [=, p = exact_ranges(s, 0, s.count())](cudaStream_t stream) {
               kernels::finalize_exact(s, p.table(), p.count(), gradients, stream);
           });
}

}  // namespace convoy::cuda
