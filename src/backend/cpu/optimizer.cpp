// The optimizer in one pass over the arenas, checksums, and the records that end a training step.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gradient_all_reduce.h"
#include "backend/cpu/muon.h"
#include "backend/cpu/rows.h"

#include <atomic>
#include <cstring>

namespace convoy::cpu {
namespace {

bool all_finite(const float* v, int64_t n) {
    uint32_t bad = 0;
#pragma omp parallel for simd schedule(static) reduction(| : bad)
    for (int64_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, v + i, sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;  // all exponent bits are set: infinite or NaN
    }
    return bad == 0;
}

}  // namespace

void CpuBackend::update(const Update& u, Tape& tape) {
    std::vector<std::function<void(float)>> matrices;              // per segment; empty unless it is a matrix
    const int matrix_threads = options_.invariant ? 1 : threads_;  // oneDNN's sums may depend on it
    const ThreadCount own(matrix_threads);
    for (const UpdateSegment& s : u.segments)
        matrices.push_back(s.rows > 0 ? muon_step(engine_, stream_, u, s) : nullptr);
    tape.push_back(
        {named_launch(LaunchPhase::optimizer, "optimizer"), Resource::compute, [u, matrices, matrix_threads] {
             const bool latched = u.latch && u.stats->skipped > 0;
             u.stats->skipped = 0;
             if (latched || !all_finite(u.gradients, int64_t(u.count))) {
                 u.stats->skipped = 1;
                 return;
             }
             const float rate = u.learning_rates[u.counters->step];
             const double t = double(u.counters->step + 1);
             const float c1 = float(1 - std::pow(double(u.spec.beta1), t)),
                         c2 = float(std::sqrt(1 - std::pow(double(u.spec.beta2), t)));
             float *w = u.weights, *first = u.state, *second = u.state + u.count;
             const float* g = u.gradients;
             for (size_t k = 0; k < u.segments.size(); ++k) {
                 const UpdateSegment& s = u.segments[k];
                 if (u.counters->step >= s.steps) continue;
                 if (matrices[k]) {
                     const ThreadCount of_matrices(matrix_threads);
                     matrices[k](rate);
                     continue;
                 }
                 const int64_t begin = int64_t(s.begin), end = int64_t(s.end);
                 const OptimizerSpec spec = u.spec;
                 const float lr = rate * s.learning_rate;
                 if (spec.kind == OptimizerSpec::sgd) {
#pragma omp parallel for simd schedule(static)
                     for (int64_t i = begin; i < end; ++i) sgd_update(spec, lr, s.weight_decay, g[i], w[i], first[i]);
                 } else {
#pragma omp parallel for simd schedule(static)
                     for (int64_t i = begin; i < end; ++i)
                         adam_update(spec, lr, s.weight_decay, c1, c2, g[i], w[i], first[i], second[i]);
                 }
             }
         }});
}

void CpuBackend::look_ahead(const LookAhead& l, Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::look_ahead, "look-ahead"), Resource::compute, [l] {
                        const float decay = l.decays[l.counters->step + 1];
                        if (decay < 0 || (l.stats && l.stats->skipped > 0)) return;
                        const auto average = [decay](float* w, float* slow, size_t n) {
#pragma omp parallel for simd schedule(static)
                            for (size_t i = 0; i < n; ++i) look_ahead_update(decay, w[i], slow[i]);
                        };
                        average(l.weights, l.slow, l.count);
                        average(l.running, l.slow_running, l.running_count);
                    }});
}

void CpuBackend::request(const Requests* requests, BatchStats* stats, BatchStats* own, Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::requests, "requests"), Resource::compute, [=] {
                        stats->stop = requests ? float(requests->stop.load()) : 0.0f;
                        stats->checkpoint = requests ? float(requests->checkpoint.load()) : 0.0f;
                        stats->snapshot = requests ? float(requests->snapshot.load()) : 0.0f;
                        if (own) *own = *stats;
                    }});
}

void CpuBackend::record(const Record& record, Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::record, "record"), Resource::compute, [record, this] {
                        const auto [stats, own, learning_rates, ring, ring_size, counters, batch, all, own_count] =
                            record;
                        StepRecord& r = ring[counters->step % ring_size];
                        r.learning_rate = learning_rates[counters->step];
                        r.step = ++counters->step;
                        r.loss = double(stats->loss_sum) / double(all);
                        r.accuracy = double(stats->correct) / double(all);
                        r.top5_accuracy = double(stats->top5) / double(all);
                        r.stop = stats->stop > 0;
                        r.checkpoint = stats->checkpoint > 0;
                        r.snapshot = stats->snapshot > 0;
                        r.skipped = stats->skipped > 0;
                        r.images = all;
                        r.own_images = batch;
                        r.own = {};
                        for (int i = 0; own && i < own_count; ++i) r.own += own[i];
                        r.step_seconds = now() - clock_->started;
                        r.data_seconds = clock_->gathered - clock_->started;
                        r.comm_exposed_seconds = all_reduce_->take_waited();
                        counters->offset += all;
                    }});
}

// Lanes may add to the same sum at the same time.
void CpuBackend::checksum(const Checksum& c, Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::other, "checksum"), Resource::compute,
                    [c, values = c.values.as<float>(), threads = threads_] {
                        if (!is_audited(c.counters->step, c.every)) return;
                        over_rows(threads, int64_t(c.values.count()), [&](int, int64_t begin, int64_t end) {
                            uint64_t own = 0;
                            for (int64_t i = begin; i < end; ++i) {
                                uint32_t bits;
                                std::memcpy(&bits, values + i, sizeof bits);
                                own += checksum_term(c.index + i, bits);
                            }
                            std::atomic_ref(*c.sum).fetch_add(own, std::memory_order_relaxed);
                        });
                    }});
}

void CpuBackend::accumulate(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters,
                            int64_t global_batch, Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::totals, "totals"), Resource::compute, [=] {
                        totals->loss_sum += double(stats->loss_sum);
                        totals->correct += int64_t(stats->correct);
                        totals->top5 += int64_t(stats->top5);
                        totals->images += images;
                        counters->offset += global_batch;
                    }});
}

}  // namespace convoy::cpu
