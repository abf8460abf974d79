#include "train/forward_pass.h"

#include <algorithm>

namespace convoy {

ForwardPass::ForwardPass(Comm& comm, Backend& backend, const Graph& graph, const State& state, const DataSet& data,
                         const Preprocessing& preprocessing, int64_t global_batch)
    : comm_(comm),
      backend_(backend),
      graph_(graph),
      global_batch_(global_batch),
      epoch_(steps_of_epoch(data.info().images, global_batch, false)),
      counters_(backend.allocate(sizeof(Counters))) {
    for (const int64_t samples : {epoch_.full_steps > 0 ? global_batch : 0, epoch_.tail})
        if (samples > 0) passes_.push_back(pass_of(samples, state, data, preprocessing));
}

ForwardPass::Pass ForwardPass::pass_of(int64_t samples, const State& state, const DataSet& data,
                                       const Preprocessing& preprocessing) {
    const Share mine = share_of(samples, comm_.size(), comm_.rank());
    const PreparedProgram prepared = prepare_program(graph_, backend_, {int(mine.count), samples, mine.first, false});
    const Buffer arena = backend_.allocate(std::max<size_t>(prepared.memory.bytes, 1));
    auto* counters = static_cast<Counters*>(counters_.get());
    Program program = lower({graph_, backend_, state, arena, 0, false, counters}, prepared, {}, [&](Program& p) {
        Gather batch = data.batches(preprocessing, counters, mine.first, nullptr);
        batch.x = p.input;
        batch.y = p.labels;
        backend_.gather(batch, p.tape);
    });
    return {samples, program.input, program.logits, arena, backend_.finish(std::move(program.tape))};
}

ForwardPass::Result ForwardPass::run(int64_t batch) {
    require(batch >= 0 && batch < batches(), "a batch of the split");
    const Pass& pass = batch < epoch_.full_steps ? passes_.front() : passes_.back();
    Counters counters;
    counters.offset = batch * global_batch_;
    backend_.upload(counters_.get(), &counters, sizeof counters);
    pass.run();
    backend_.synchronize();
    return {pass.input.shape, pass.logits.shape, pass.samples, gather(pass)};
}

std::vector<float> ForwardPass::gather(const Pass& pass) {
    const auto classes = size_t(graph_.classes);
    std::vector<float> mine(size_t(share_of(pass.samples, comm_.size(), 0).count) * classes);  // the largest share
    backend_.download(mine.data(), pass.logits.data, pass.logits.count() * sizeof(float));
    const std::vector<float> all = comm_.gather(mine);
    std::vector<float> rows;
    for (int rank = 0; comm_.root() && rank < comm_.size(); ++rank) {
        const auto begin = all.begin() + std::ptrdiff_t(size_t(rank) * mine.size());
        rows.insert(rows.end(), begin,
                    begin + std::ptrdiff_t(share_of(pass.samples, comm_.size(), rank).count) * graph_.classes);
    }
    return rows;
}

}  // namespace convoy
