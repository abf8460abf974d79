// Gradients of logical ranks as integers: each lane adds its own, MPI adds those of all ranks.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/exact_adder.h"
#include "backend/cpu/gradient_sums.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

/// The largest bits of the values without their signs.
CONVOY_WIDE uint32_t largest_magnitude(const float* __restrict from, size_t n) {
    uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, from + i, sizeof bits);
        largest = std::max(largest, bits & 0x7fffffffu);
    }
    return largest;
}

/// What is larger than 2^bits, or no number, becomes some integer that is not: the step is not
/// used.
CONVOY_WIDE void add_integers(const float* __restrict from, size_t n, double scale, double most,
                              int64_t* __restrict to) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) {
        double v = double(from[i]) * scale;
        v = v < most ? v : most;
        v = v > -most ? v : -most;
        to[i] += int64_t(std::rint(v));
    }
}

CONVOY_WIDE void take_integers(int64_t* __restrict from, size_t n, double unit, float* __restrict to) {
#pragma omp simd
    for (size_t i = 0; i < n; ++i) {
        to[i] = float(double(float(from[i])) * unit);
        from[i] = 0;
    }
}

void raise_to(int32_t& value, int32_t to) {
    std::atomic_ref shared(value);
    int32_t now = shared.load(std::memory_order_relaxed);
    while (now < to && !shared.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
    }
}

/// From the exponents that all ranks have seen.
void set_exponents(const ExactSums& s) {
    const size_t tensors = s.ends.size();
    bool finite = true, fits = true;
    for (size_t t = 0; t < tensors; ++t) {
        finite = finite && s.seen[t] != exponent::not_finite;
        fits = fits && s.seen[t] <= s.tops[t];
        s.tops[t] = next_top(s.tops[t], s.seen[t]);
        s.seen[t] = exponent::of_zero;
    }
    *s.redo = finite && !fits;
}

}  // namespace

std::vector<ExactAdder::Piece> ExactAdder::pieces_of(const ExactSums& s, size_t begin, size_t end) {
    std::vector<Piece> pieces;
    size_t tensor = 0;
    while (begin < end) {
        while (s.ends[tensor] <= begin) ++tensor;
        const size_t until = std::min({end, s.ends[tensor], (begin / stripe + 1) * stripe});
        pieces.push_back({tensor, begin, until});
        begin = until;
    }
    return pieces;
}

void ExactAdder::reserve(size_t count) {
    while (turns_.size() * stripe < count) turns_.emplace_back();
}

void ExactAdder::add(const ExactSums& s, const float* gradients, const Piece& p) {
    const int32_t top = s.tops[p.tensor];
    const size_t n = p.end - p.begin;
    raise_to(s.seen[p.tensor], exponent_of(largest_magnitude(gradients + p.begin, n)));
    const std::lock_guard turn(turns_[p.begin / stripe]);
    add_integers(gradients + p.begin, n, ExactSums::scale(s.bits, top), power_of_two(s.bits), s.sums + p.begin);
}

void CpuBackend::deposit(const ExactSums& s, const float* gradients, size_t begin, size_t end, Tape& tape) {
    adder_->reserve(s.count());
    const std::vector<ExactAdder::Piece> pieces = ExactAdder::pieces_of(s, begin, end);
    // lanes that come at the same time begin at different stripes
    const size_t first = size_t(index_) * pieces.size() / size_t(std::max(1, s.lanes));
    const std::string name = "deposit " + std::to_string((end - begin) * sizeof(float) >> 10) + " KiB";
    tape.push_back({named_step(StepPhase::other, name), Lane::compute, [this, s, gradients, pieces, first] {
                        for (size_t i = 0; i < pieces.size(); ++i)
                            adder_->add(s, gradients, pieces[(first + i) % pieces.size()]);
                    }});
}

void CpuBackend::allreduce(const ExactSums& s, size_t begin, size_t end, Tape& tape) {
    const size_t bucket = sums_->bucket(s.sums + begin, end - begin, s.lanes);
    const std::string name = "all-reduce " + std::to_string((end - begin) * sizeof(int64_t) >> 10) + " KiB";
    tape.push_back(
        {named_step(StepPhase::all_reduce, name), Lane::communication, [this, bucket] { sums_->arrive(bucket); }});
}

void CpuBackend::withdraw(const ExactSums& s, float* gradients, Tape& tape) {
    const std::vector<ExactAdder::Piece> pieces = ExactAdder::pieces_of(s, 0, s.count());
    tape.push_back({named_step(StepPhase::all_reduce, "wait for all-reduce"), Lane::compute, [this, s] {
                        sums_->wait();
                        sums_->max_now(s.seen, int(s.ends.size()));
                    }});
    tape.push_back({named_step(StepPhase::other, "withdraw"), Lane::compute, [s, gradients, pieces] {
#pragma omp parallel for schedule(static)
                        for (const ExactAdder::Piece& p : pieces) {
                            const double unit = ExactSums::unit(s.bits, s.tops[p.tensor]);
                            take_integers(s.sums + p.begin, p.end - p.begin, unit, gradients + p.begin);
                            if (s.seen[p.tensor] == exponent::not_finite)
                                std::fill(gradients + p.begin, gradients + p.end,
                                          std::numeric_limits<float>::quiet_NaN());
                        }
                        set_exponents(s);
                    }});
}

}  // namespace convoy::cpu
