// Gradients of logical ranks as integers: each lane adds its own, then MPI adds those of all ranks.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/exact_adder.h"
#include "backend/cpu/gradient_all_reduce.h"
#include "backend/cpu/rows.h"
#include "base/error.h"

namespace convoy::cpu {
namespace {

/// Converts a gradient to an integer. If it exceeds `most` after scaling or is NaN, the result is
/// some valid integer, and the step is not used.
inline int64_t integer(float value, double scale, double most) {
    double v = double(value) * scale;
    v = v < most ? v : most;
    v = v > -most ? v : -most;
    return int64_t(std::rint(v));
}

/// Overwrites `to` with `from` as integers, or adds them if Add. Returns the largest magnitude in
/// `from`, as the bits of that float.
template <bool Add>
CONVOY_WIDE uint32_t put_integers(const float* __restrict from, size_t n, double scale, double most,
                                  int64_t* __restrict to) {
    uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, from + i, sizeof bits);
        largest = std::max(largest, bits & 0x7fffffffu);
        to[i] = (Add ? to[i] : 0) + integer(from[i], scale, most);
    }
    return largest;
}

CONVOY_WIDE void take_integers(const int64_t* __restrict from, size_t n, double unit, float* __restrict to) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) to[i] = float(double(float(from[i])) * unit);
}

/// Writes NaN, except where a sum is zero, because that may be padding, which must stay zero. The
/// first element of a range is never padding, so it becomes NaN even if its sum is zero.
void make_not_finite(const int64_t* sums, size_t n, float* to) {
    for (size_t i = 0; i < n; ++i) to[i] = i == 0 || sums[i] != 0 ? std::numeric_limits<float>::quiet_NaN() : 0;
}

void raise_to(int32_t& value, int32_t to) {
    std::atomic_ref shared(value);
    int32_t now = shared.load(std::memory_order_relaxed);
    while (now < to && !shared.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
    }
}

/// Sets the next exponents from those that all ranks have seen. A tensor that is not finite would
/// never fit, so it asks for no repetition. The other tensors still do, because one of them holds
/// the loss, which is reported even if the update is skipped.
void set_exponents(const ExactSums& s) {
    const size_t tensors = s.ends.size();
    bool fits = true;
    for (size_t t = 0; t < tensors; ++t) {
        fits = fits && (s.seen[t] <= s.tops[t] || s.seen[t] == exponent::not_finite);
        s.tops[t] = next_top(s.tops[t], s.seen[t]);
        s.seen[t] = exponent::of_zero;
    }
    *s.redo = !fits;
}

}  // namespace

std::vector<ExactAdder::GuardedRange*> ExactAdder::ranges(const ExactSums& s, size_t begin, size_t end) {
    constexpr size_t stripe = size_t(1) << 14;  // elements
    std::vector<GuardedRange*> ranges;
    for (const ExactRange& p : s.ranges(begin, end, stripe))
        ranges.push_back(&ranges_.try_emplace(s.sums + p.begin, p).first->second);
    return ranges;
}

std::vector<ExactAdder::GuardedRange*> ExactAdder::ranges(const ExactSums& s) {
    std::vector<GuardedRange*> ranges;
    int64_t covered = 0;
    const auto end = ranges_.lower_bound(s.sums + s.count());
    for (auto p = ranges_.lower_bound(s.sums); p != end; ++p) {
        require(p->second.begin == covered, "each gradient has one place among the sums");
        covered = p->second.end;
        ranges.push_back(&p->second);
    }
    require(size_t(covered) == s.count(), "every gradient is summed");
    return ranges;
}

void ExactAdder::add(const ExactSums& s, const float* gradients, GuardedRange& p) {
    const float* from = gradients + p.begin;
    const auto n = size_t(p.end - p.begin);
    const double scale = ExactSums::scale(s.bits, s.tops[p.tensor]), most = power_of_two(s.bits);
    const std::lock_guard turn(p.turn);
    const uint32_t largest =
        (p.empty ? put_integers<false> : put_integers<true>)(from, n, scale, most, s.sums + p.begin);
    p.empty = false;
    raise_to(s.seen[p.tensor], exponent_of(largest));
}

void ExactAdder::take(const ExactSums& s, GuardedRange& p, float* gradients) {
    const auto n = size_t(p.end - p.begin);
    p.empty = true;
    if (s.seen[p.tensor] == exponent::not_finite)
        make_not_finite(s.sums + p.begin, n, gradients + p.begin);
    else
        take_integers(s.sums + p.begin, n, ExactSums::unit(s.bits, s.tops[p.tensor]), gradients + p.begin);
}

void CpuBackend::accumulate_exact(const ExactSums& s, const float* gradients, size_t begin, size_t end, Tape& tape) {
    std::vector<ExactAdder::GuardedRange*> ranges = adder_->ranges(s, begin, end);
    // lanes that arrive at the same time begin at different ranges
    const size_t first = size_t(index_) * ranges.size() / size_t(std::max(1, s.lanes));
    std::rotate(ranges.begin(), ranges.begin() + int64_t(first), ranges.end());
    const std::string name = "accumulate " + std::to_string((end - begin) * sizeof(float) >> 10) + " KiB";
    tape.push_back({named_launch(LaunchPhase::other, name), Resource::compute, [s, gradients, ranges] {
                        for (ExactAdder::GuardedRange* p : ranges) ExactAdder::add(s, gradients, *p);
                    }});
}

void CpuBackend::allreduce(const ExactSums& s, size_t begin, size_t end, Tape& tape) {
    const size_t bucket = all_reduce_->bucket(s.sums + begin, end - begin, s.lanes);
    const std::string name = "all-reduce " + std::to_string((end - begin) * sizeof(int64_t) >> 10) + " KiB";
    tape.push_back({named_launch(LaunchPhase::all_reduce, name), Resource::communication,
                    [this, bucket] { all_reduce_->arrive(bucket); }});
}

void CpuBackend::finalize_exact(const ExactSums& s, float* gradients, Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::all_reduce, "wait for all-reduce"), Resource::compute, [this, s] {
                        all_reduce_->wait();
                        all_reduce_->max_now(s.seen, int(s.ends.size()));
                    }});
    const std::vector<ExactAdder::GuardedRange*> ranges = adder_->ranges(s);
    tape.push_back({named_launch(LaunchPhase::other, "finalize sums"), Resource::compute, [s, gradients, ranges] {
#pragma omp parallel for schedule(static)
                        for (ExactAdder::GuardedRange* p : ranges) ExactAdder::take(s, *p, gradients);
                        set_exponents(s);
                    }});
}

}  // namespace convoy::cpu
