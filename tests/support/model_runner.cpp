// Parameters are computed without fused multiply-adds, as their golden counterparts were: each
// product and each sum is rounded.
#include "tests/support/model_runner.h"

#include <cmath>

#include "base/philox.h"

namespace convoy::test {

Floats stream(const std::string& name, size_t n) {
    uint64_t key = 14695981039346656037u;  // FNV-1a
    for (const unsigned char c : name) key = (key ^ c) * 1099511628211u;
    Floats values(n);
    for (size_t i = 0; i < n; i += 4) {
        const Random4 r = philox(key, uint32_t(i / 4), uint32_t(i / 4 >> 32), 0, 0);
        for (size_t k = 0; k < 4 && i + k < n; ++k) values[i + k] = float(int32_t(r.word[k])) * 0x1p-31f;
    }
    return values;
}

ModelRunner::ModelRunner(Backend& backend, const Graph& graph, int batch, const TrainingRule& rule)
    : backend_(backend), graph_(graph), batch_(batch), state_(graph, backend, &rule.optimizer) {
    const PreparedProgram prepared = prepare_program(graph, backend, {batch, batch, 0, true});
    arena_ = backend.allocate(prepared.memory.bytes);
    counters_ = upload(backend, std::vector<Counters>(1));
    learning_rates_ = upload(backend, Floats(size_t(rule.steps), rule.learning_rate));
    ring_ = backend.allocate(sizeof(StepRecord));
    auto* counters = static_cast<Counters*>(counters_.get());
    program_ = lower({graph, backend, state_, arena_, 1, false, counters}, prepared,
                     cut_buckets(state_.counts(), size_t(1) << 20), nullptr);
    forward_backward_ = backend.finish(program_.tape);

    Update update = state_.update(rule.optimizer, rule.weight_decay, false);
    update.learning_rates = static_cast<float*>(learning_rates_.get());
    update.counters = counters;
    Tape tape;
    backend.update(update, tape);
    backend.record({.stats = state_.stats(),
                    .own = nullptr,
                    .learning_rates = update.learning_rates,
                    .ring = static_cast<StepRecord*>(ring_.get()),
                    .ring_size = 1,
                    .counters = counters,
                    .batch = batch,
                    .global_batch = batch},
                   tape);
    update_ = backend.finish(std::move(tape));
    if (const Tensor kept = backend.kept_state(); kept.count() > 0) put(backend, kept, {loss_scale_ = 1024});
    fill_params();
}

void ModelRunner::fill_params() {
    std::vector<float> bound(graph_.params.size(), 0.1f);  // for biases
    for (const Op& op : graph_.ops) {
        if (const auto* conv = std::get_if<Conv>(&op)) {
            const Shape s = graph_.params[conv->weight].shape;
            bound[conv->weight] = float(std::sqrt(3.0 / double(s.h * s.w * s.c)));
        } else if (const auto* linear = std::get_if<Linear>(&op)) {
            bound[linear->weight] = float(1 / std::sqrt(double(graph_.params[linear->weight].shape.c)));
        }
    }
    for (size_t id = 0; id < graph_.params.size(); ++id) {
        const Param& p = graph_.params[id];
        Floats v(p.shape.count(), p.init.a);
        if (p.trained) {
            v = stream(p.name, p.shape.count());
            for (float& e : v) {
                const bool scale = p.name.ends_with(".scale");
                const volatile float product = (scale ? 0.2f : bound[id]) * e;  // rounded before the addition
                e = scale ? 1 + product : product;
            }
        }
        backend_.upload(state_.params()[id].data, v.data(), v.size() * sizeof(float));
    }
}

void ModelRunner::set_batch(const Floats& input, const std::vector<int32_t>& labels) {
    require(int(labels.size()) == batch_, "a test's batch fits its model");
    input_ = input;
    labels_ = labels;
}

void ModelRunner::forward_backward() {  // the arena shares memory, so the input is overwritten
    put(backend_, program_.input, input_);
    backend_.upload(program_.labels.data, labels_.data(), program_.labels.bytes());
    forward_backward_();
    backend_.synchronize();
}

Floats ModelRunner::gradient(ParamId id) const {
    Floats g = get(state_.gradients()[id]);
    for (float& v : g) v /= loss_scale_;
    return g;
}

void ModelRunner::update() {
    update_();
    backend_.synchronize();
}

double ModelRunner::loss() const {
    return double(download<BatchStats>(backend_, state_.stats(), 1)[0].loss_sum) / batch_;
}

}  // namespace convoy::test
