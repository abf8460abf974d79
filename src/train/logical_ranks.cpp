#include "train/logical_ranks.h"

#include <algorithm>
#include <bit>

namespace convoy {

LogicalRanks::LogicalRanks(const BatchSplit& batch_split, int rank, Backend& backend, const State& state)
    : backend_(backend), state_(state), count_(int(batch_split.logical_of(rank).count)) {
    size_t end = 0;
    for (const size_t count : state.counts()) sums_.ends.push_back(end += count);
    sums_.bits = 62 - std::bit_width(uint64_t(batch_split.logical - 1));
    sums_.lanes = std::min(backend.facts().lanes, count_);
    integers_ = backend.allocate_reduced(end * sizeof(int64_t));
    sums_.sums = static_cast<int64_t*>(integers_.get());
    const size_t tensors = sums_.ends.size();
    exponents_ = backend.allocate((2 * tensors + 1) * sizeof(int32_t));
    sums_.tops = static_cast<int32_t*>(exponents_.get());
    sums_.seen = sums_.tops + tensors;
    sums_.redo = sums_.seen + tensors;
    for (int lane = 1; lane < sums_.lanes; ++lane) arenas_.push_back(backend.allocate(end * sizeof(float)));
    kept_running_ = backend.allocate(std::max<size_t>(all_running().bytes(), 1));
    set_exponents({});
}

LogicalRank LogicalRanks::part(int index) const {
    const int lane = index % lanes();
    float* const arena = lane == 0 ? nullptr : static_cast<float*>(arenas_[size_t(lane) - 1].get());
    return {state_.operands(index, arena), sums_, index + lanes() >= count_};
}

void LogicalRanks::append(const std::vector<Tape>& parts, Tape& tape) {
    Tensor kept = all_running();
    kept.data = kept_running_.get();
    if (kept.count() > 0) backend_.add_scaled(all_running(), 1, kept, false, tape);
    backend_.side_by_side(parts, tape);
    backend_.finalize_exact(sums_, state_.operands().arena, tape);
}

bool LogicalRanks::redo() {
    int32_t redo = 0;
    backend_.download(&redo, sums_.redo, sizeof redo);
    if (redo == 0) return false;
    std::vector<float> running(all_running().count());
    backend_.download(running.data(), kept_running_.get(), running.size() * sizeof(float));
    backend_.upload(all_running().data, running.data(), running.size() * sizeof(float));
    return true;
}

Tensor LogicalRanks::all_running() const {
    Tensor all = state_.running();
    all.shape.n = count_;
    return all;
}

std::vector<int32_t> LogicalRanks::exponents() const {
    std::vector<int32_t> tops(sums_.ends.size());
    backend_.download(tops.data(), sums_.tops, tops.size() * sizeof(int32_t));
    return tops;
}

void LogicalRanks::set_exponents(std::vector<int32_t> tops) {
    const size_t tensors = sums_.ends.size();
    tops.resize(tensors, exponent::of_zero);
    tops.resize(2 * tensors, exponent::of_zero);  // second half: the exponents of this step, which has none yet
    backend_.upload(sums_.tops, tops.data(), tops.size() * sizeof(int32_t));
}

}  // namespace convoy
