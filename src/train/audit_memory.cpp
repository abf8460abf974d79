#include "train/audit_memory.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace convoy {

AuditMemory::AuditMemory(Backend& backend, const State& state, const LogicalRanks* exact, int lanes)
    : backend_(backend), state_(state) {
    sums_ = backend.allocate(words * sizeof(uint64_t));
    running_ = backend.allocate(std::max<size_t>(size_t(lanes) * state.running().bytes(), 1));
    // Reuses arenas of `exact`, because their gradients are already in the sums when an audit runs.
    for (int lane = 0; lane < lanes; ++lane)
        gradients_.push_back(exact && lane > 0 && lane < exact->lanes()
                                 ? exact->arena(lane)
                                 : backend.allocate(state.end_of_arena() * sizeof(float)));
}

Tensor AuditMemory::running(int lane) const {
    Tensor t = state_.running();
    t.data = static_cast<float*>(running_.get()) + size_t(lane) * t.count();
    return t;
}

Operands AuditMemory::operands(int lane) const {
    Operands o = state_.operands(0, static_cast<float*>(gradients_[size_t(lane)].get()));
    const auto* const from = state_.running().as<float>();
    for (Tensor& p : o.params)
        if (!state_.is_trained(p)) p.data = running(lane).as<float>() + (p.as<float>() - from);
    o.own = nullptr;
    return o;
}

void AuditMemory::clear(Tape& tape) const {
    backend_.zero({sums_.get(), {1, 1, 1, int(words * sizeof(uint64_t) / sizeof(float))}, DType::f32}, tape);
}

void AuditMemory::begin(int distance, const Counters* counters, Tape& tape) const {
    // Copies the running statistics, because batch norms with fixed statistics read them.
    for (int lane = 0; lane < int(gradients_.size()) && state_.running().count() > 0; ++lane)
        backend_.add_scaled(state_.running(), 1, running(lane), false, tape);
    if (distance > 1) return;
    auto* const sum = static_cast<uint64_t*>(sums_.get()) + words - 1;
    backend_.checksum({.values = state_.weights(), .index = 0, .sum = sum, .counters = counters, .every = 1}, tape);
}

std::vector<AuditRow> AuditMemory::rows(Comm& comm) const {
    unsigned long long sums[words];
    static_assert(sizeof sums == words * sizeof(uint64_t));
    backend_.download(sums, sums_.get(), sizeof sums);
    std::vector<AuditRow> rows;
    for (const std::string& row :
         comm.gather_all(formatted("%llx %llx %llx %llx", sums[0], sums[1], sums[2], sums[3]))) {
        unsigned long long of[words] = {};
        require(std::sscanf(row.c_str(), "%llx %llx %llx %llx", &of[0], &of[1], &of[2], &of[3]) == words,
                "a rank sends all of its checksums");
        rows.push_back({.weights = of[3], .shares = {of[0], of[1], of[2]}});
    }
    return rows;
}

}  // namespace convoy
