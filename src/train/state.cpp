#include "train/state.h"

#include <algorithm>

namespace convoy {
namespace {

/// Every tensor starts at a multiple of a cache line; the padding stays zero, which every optimizer leaves alone.
size_t padded(size_t elements) { return (elements + stats_elements - 1) / stats_elements * stats_elements; }

Tensor view(const Buffer& buffer, size_t offset, Shape shape) { return {static_cast<float*>(buffer.get()) + offset, shape, DType::f32}; }

/// Trained parameters in the order in which backward reaches them.
std::vector<ParamId> backward_order(const Graph& graph) {
    std::vector<ParamId> order;
    for (auto op = graph.ops.rbegin(); op != graph.ops.rend(); ++op)
        for (ParamId id : params_of(*op))
            if (graph.params[id].trained) order.push_back(id);
    return order;
}

uint32_t fnv1a(const std::string& text) {
    uint32_t hash = 2166136261u;
    for (unsigned char c : text) hash = (hash ^ c) * 16777619u;
    return hash;
}

}  // namespace

State::State(const Graph& graph, Backend& backend, const OptimizerSpec* spec) {
    const size_t count = graph.params.size();
    params_.resize(count);
    gradients_.resize(count);
    end_.assign(count, 0);

    const std::vector<ParamId> order = backward_order(graph);
    counts_ = {stats_elements};
    arena_ = stats_elements;
    for (ParamId id : order) {
        const Param& p = graph.params[id];
        counts_.push_back(padded(p.shape.count()));
        segments_.push_back({arena_, arena_ + counts_.back(), p.is_weight ? 1.0f : 0.0f});
        arena_ += counts_.back();
        end_[id] = arena_;
    }
    weights_ = backend.allocate(arena_ * sizeof(float));
    weights_tensor_ = view(weights_, 0, {1, 1, 1, int(arena_)});
    gradients_buffer_ = backend.allocate((spec ? arena_ : stats_elements) * sizeof(float));
    if (spec) {
        optimizer_buffer_ = backend.allocate(arena_ * spec->state_per_element() * sizeof(float));
        optimizer_tensor_ = view(optimizer_buffer_, 0, {spec->state_per_element(), 1, 1, int(arena_)});
    }
    for (size_t i = 0; i < order.size(); ++i) {
        const Param& p = graph.params[order[i]];
        params_[order[i]] = view(weights_, segments_[i].begin, p.shape);
        if (!spec) continue;
        gradients_[order[i]] = view(gradients_buffer_, segments_[i].begin, p.shape);
        for (int k = 0; k < spec->state_per_element(); ++k) {
            const std::string suffix = spec->kind == OptimizerSpec::sgd ? ".velocity" : ".moment" + std::to_string(k + 1);
            optimizer_.push_back({p.name + suffix, view(optimizer_buffer_, k * arena_ + segments_[i].begin, p.shape)});
        }
    }

    size_t running = 0;
    for (const Param& p : graph.params) running += p.trained ? 0 : padded(p.shape.count());
    running_ = backend.allocate(running * sizeof(float));
    running_tensor_ = view(running_, 0, {1, 1, 1, int(running)});
    running = 0;
    for (size_t id = 0; id < count; ++id) {
        const Param& p = graph.params[id];
        if (!p.trained) {
            params_[id] = view(running_, running, p.shape);
            running += padded(p.shape.count());
        }
        model_.push_back({p.name, params_[id]});
    }
}

Tensor State::gradient_slice(size_t begin, size_t end) const { return view(gradients_buffer_, begin, {1, 1, 1, int(end - begin)}); }

Update State::update(const OptimizerSpec& spec, float weight_decay, bool decay_weights_only) const {
    Update u{spec,   static_cast<float*>(weights_.get()), static_cast<float*>(gradients_buffer_.get()), static_cast<float*>(optimizer_buffer_.get()),
             arena_, {}, nullptr, nullptr, stats(), false};
    for (const UpdateSegment& s : segments_) {
        const float decay = decay_weights_only ? weight_decay * s.weight_decay : weight_decay;
        if (!u.segments.empty() && u.segments.back().weight_decay == decay)
            u.segments.back().end = s.end;
        else
            u.segments.push_back({s.begin, s.end, decay});
    }
    return u;
}

void State::initialise(const Graph& graph, Backend& backend, uint64_t seed) {
    std::vector<float> values;
    for (size_t id = 0; id < graph.params.size(); ++id) {
        const Param& p = graph.params[id];
        values.assign(p.shape.count(), p.init.a);
        for (size_t i = 0; p.init.kind != Init::constant && i < values.size(); i += 4) {
            const Random4 r = philox(seed, uint32_t(i / 4), fnv1a(p.name), 0, purpose_init);
            float draw[4];
            if (p.init.kind == Init::normal) {
                normal2(r.word[0], r.word[1], draw);
                normal2(r.word[2], r.word[3], draw + 2);
            } else {
                for (int k = 0; k < 4; ++k) draw[k] = 2 * uniform01(r.word[k]) - 1;
            }
            for (size_t k = 0; k < 4 && i + k < values.size(); ++k) values[i + k] = p.init.a * draw[k];
        }
        backend.upload(params_[id].data, values.data(), values.size() * sizeof(float));
    }
}

}  // namespace convoy
