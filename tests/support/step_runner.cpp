#include "tests/support/step_runner.h"

#include "base/philox.h"
#include "tests/support/model_runner.h"

namespace convoy::test {

StepRunner::StepRunner(Backend& backend, const Graph& graph, int batch, OptimizerSpec spec, float learning_rate,
                       uint64_t seed, size_t bucket)
    : backend_(backend), state_(graph, backend, &spec) {
    const Value& input = graph.values[graph.input];
    std::vector<uint8_t> images(size_t(batch) * input.h * input.w * input.c);
    for (size_t i = 0; i < images.size(); ++i) images[i] = uint8_t(philox(seed, uint32_t(i), 1, 0, 0).word[0] >> 24);
    std::vector<int32_t> labels;
    for (int i = 0; i < batch; ++i) labels.push_back((7 * i + 3) % graph.classes);
    images_ = upload(backend, images);
    labels_ = upload(backend, labels);
    counters_ = upload(backend, std::vector<Counters>(1));
    rates_ = upload(backend, Floats(steps, learning_rate));
    ring_ = backend.allocate(ring_size * sizeof(StepRecord));
    auto* counters = static_cast<Counters*>(counters_.get());

    const PreparedProgram prepared = prepare_program(graph, backend, {batch, batch, 0, true});
    arena_ = backend.allocate(prepared.memory.bytes);
    Program p = lower({graph, backend, state_, arena_, seed, false, counters}, prepared,
                      cut_buckets(state_.counts(), bucket), [&](Program& program) {
                          backend.gather({{images_.get(), {batch, input.h, input.w, input.c}, DType::u8},
                                          {labels_.get(), {batch, 1, 1, 1}, DType::i32},
                                          nullptr,
                                          counters,
                                          program.input,
                                          program.labels,
                                          0,
                                          std::vector<float>(size_t(input.c), 0.5f),
                                          std::vector<float>(size_t(input.c), 0.25f),
                                          {2, true, true},
                                          seed},
                                         program.tape);
                      });
    logits_ = p.logits;
    Update update = state_.update(spec, 1e-4f, true);
    update.learning_rates = static_cast<float*>(rates_.get());
    update.counters = counters;
    backend.update(update, p.tape);
    backend.record({.stats = state_.stats(),
                    .own = nullptr,
                    .learning_rates = update.learning_rates,
                    .ring = static_cast<StepRecord*>(ring_.get()),
                    .ring_size = ring_size,
                    .counters = counters,
                    .batch = batch,
                    .global_batch = batch},
                   p.tape);
    algorithms_ = prepared.algorithms;
    for (const OpMemory& memory : prepared.algorithms->memory) unwritten_ += !memory.writes_value;
    for (const Launch& launch : p.tape) tape_.push_back(launch.id);
    probes_ = p.probes;
    run_ = backend.finish(std::move(p.tape));
    state_.initialise(graph, backend, seed);
    for (size_t id = 0; id < graph.params.size(); ++id) {  // frozen weights: the trainer sets these
        if (!graph.params[id].frozen || !graph.params[id].is_weight) continue;
        Floats v = stream(graph.params[id].name, graph.params[id].shape.count());
        for (float& e : v) e *= 0.3f;
        put(backend, state_.params()[id], v);
    }
}

StepRecord StepRunner::step() {
    Counters now;  // every step sees the same batch again
    now.step = done_;
    backend_.upload(counters_.get(), &now, sizeof now);
    run_();
    backend_.synchronize();
    return download<StepRecord>(backend_, ring_.get(), ring_size)[done_++ % ring_size];
}

}  // namespace convoy::test
