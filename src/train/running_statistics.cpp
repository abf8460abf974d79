#include "train/running_statistics.h"

namespace convoy {

std::vector<float> mean_of_rows(const std::vector<float>& rows, size_t count) {
    std::vector<float> mean(count);
    const size_t n = rows.size() / count;
    for (size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (size_t r = 0; r < n; ++r) sum += rows[r * count + i];
        mean[i] = float(sum / double(n));
    }
    return mean;
}

std::vector<float> gather_running(Comm& comm, TensorMemory& memory, const State& state, const BatchSplit& batch_split) {
    const size_t count = state.running().count();
    const auto most = size_t(batch_split.logical_of(0).count);  // no rank has more than rank 0
    std::vector<float> mine(count * most);
    memory.download(mine.data(), state.running().data, size_t(state.replicas()) * count * sizeof(float));
    const std::vector<float> gathered = comm.gather(mine);
    std::vector<float> all;
    for (int rank = 0; comm.root() && rank < comm.size(); ++rank) {
        const auto from = gathered.begin() + ptrdiff_t(size_t(rank) * count * most);
        all.insert(all.end(), from, from + ptrdiff_t(size_t(batch_split.logical_of(rank).count) * count));
    }
    return all;
}

void restore_running(Comm& comm, TensorMemory& memory, const State& state, const BatchSplit& batch_split,
                     std::vector<float> all, int64_t ranks) {
    comm.broadcast(&ranks, sizeof ranks);
    const size_t count = state.running().count();
    all.resize(count * size_t(ranks));
    comm.broadcast(all.data(), all.size() * sizeof(float));
    if (count == 0) return;
    for (int i = 0; i < state.replicas(); ++i) {
        const auto own = all.begin() + ptrdiff_t(size_t(batch_split.logical_of(comm.rank()).first + i) * count);
        const std::vector<float> running =
            ranks == batch_split.logical ? std::vector<float>(own, own + ptrdiff_t(count)) : mean_of_rows(all, count);
        memory.upload(state.running(i).data, running.data(), state.running().bytes());
    }
}

void average_running(Comm& comm, TensorMemory& memory, const State& state, const BatchSplit& batch_split, bool exact) {
    const size_t count = state.running().count();
    if (count == 0) return;
    std::vector<float> values(count);
    if (exact) {
        const std::vector<float> all = gather_running(comm, memory, state, batch_split);
        if (comm.root()) values = mean_of_rows(all, count);
        comm.broadcast(values.data(), count * sizeof(float));
    } else {
        memory.download(values.data(), state.running().data, state.running().bytes());
        comm.average(values);
    }
    for (int i = 0; i < state.replicas(); ++i)
        memory.upload(state.running(i).data, values.data(), state.running().bytes());
}

}  // namespace convoy
