#include "train/state.h"

#include <algorithm>
#include <tuple>

namespace convoy {
namespace {

/// Returns a size rounded up so that the next tensor starts at a cache line. The padding stays
/// zero, because no optimizer changes it.
size_t padded(size_t elements) { return (elements + stats_elements - 1) / stats_elements * stats_elements; }

/// Returns a tensor of floats that begins `offset` elements into a block.
Tensor tensor_in(const Buffer& buffer, size_t offset, Shape shape) {
    return {static_cast<float*>(buffer.get()) + offset, shape, DType::f32};
}

/// Returns the trained or the frozen parameters, in the order in which backward reaches them.
std::vector<ParamId> backward_order(const Graph& graph, bool frozen) {
    std::vector<ParamId> order;
    for (auto op = graph.ops.rbegin(); op != graph.ops.rend(); ++op)
        for (ParamId id : params_of(*op))
            if (graph.params[id].trained && graph.params[id].frozen == frozen) order.push_back(id);
    return order;
}

uint32_t fnv1a(const std::string& text) {
    uint32_t hash = 2166136261u;
    for (unsigned char c : text) hash = (hash ^ c) * 16777619u;
    return hash;
}

/// Makes each of the first `in` filters of a convolution weight [out, kh, kw, in] copy one channel.
void copy_channels(const Shape& s, std::vector<float>& weight) {
    const size_t filter = size_t(s.h) * s.w * s.c, middle = (size_t(s.h / 2) * s.w + size_t(s.w / 2)) * s.c;
    for (size_t o = 0; o < size_t(std::min(s.n, s.c)); ++o) {
        std::fill_n(weight.begin() + ptrdiff_t(o * filter), filter, 0.0f);
        weight[o * filter + middle + o] = 1;
    }
}

}  // namespace

State::State(const Graph& graph, TensorMemory& memory, const OptimizerSpec* spec, bool look_ahead, int replicas)
    : replicas_(replicas) {
    const size_t count = graph.params.size();
    params_.resize(count);
    gradients_.resize(count);
    end_.assign(count, 0);
    lay_out_gradients(graph);
    allocate_weights(graph, memory);
    gradients_buffer_ = memory.allocate_reduced((spec ? arena_ : stats_elements) * sizeof(float));
    if (spec) own_stats_ = memory.allocate(sizeof(BatchStats) * size_t(replicas));
    if (spec) allocate_optimizer(memory, *spec, look_ahead);
    allocate_running(graph, memory);
    for (size_t id = 0; id < count; ++id) model_.push_back({graph.params[id].name, params_[id]});
}

/// Sets the arena offset of each trained parameter's gradient, after the batch sums.
void State::lay_out_gradients(const Graph& graph) {
    counts_ = {stats_elements};
    arena_ = stats_elements;
    for (ParamId id : backward_order(graph, false)) {
        const Param& p = graph.params[id];
        counts_.push_back(padded(p.shape.count()));
        segments_.push_back({.begin = arena_, .end = arena_ + counts_.back(), .id = id, .param = p});
        arena_ += counts_.back();
        end_[id] = arena_;
    }
}

/// Allocates trained parameters at the offsets of their gradients, then frozen ones.
void State::allocate_weights(const Graph& graph, TensorMemory& memory) {
    const std::vector<ParamId> frozen = backward_order(graph, true);
    size_t all = arena_;
    for (ParamId id : frozen) all += padded(graph.params[id].shape.count());
    weights_ = memory.allocate(all * sizeof(float));
    weights_tensor_ = tensor_in(weights_, 0, {1, 1, 1, int(all)});
    for (const Segment& s : segments_) params_[s.id] = tensor_in(weights_, s.begin, s.param.shape);
    size_t at = arena_;
    for (ParamId id : frozen) {
        params_[id] = tensor_in(weights_, at, graph.params[id].shape);
        at += padded(graph.params[id].shape.count());
    }
}

/// Allocates planes of optimizer state, with the offsets of the gradients. The last plane is
/// look-ahead's, if there is one.
void State::allocate_optimizer(TensorMemory& memory, const OptimizerSpec& spec, bool look_ahead) {
    if (look_ahead) look_ahead_ = spec.state_per_element();
    const int planes = spec.state_per_element() + int(look_ahead);
    optimizer_buffer_ = memory.allocate(arena_ * size_t(planes) * sizeof(float));
    optimizer_tensor_ = tensor_in(optimizer_buffer_, 0, {planes, 1, 1, int(arena_)});
    const auto suffix = [&](int plane) -> std::string {
        if (plane == look_ahead_) return ".slow";
        return spec.kind == OptimizerSpec::sgd ? ".velocity" : ".moment" + std::to_string(plane + 1);
    };
    for (const Segment& s : segments_) {
        gradients_[s.id] = tensor_in(gradients_buffer_, s.begin, s.param.shape);
        for (int plane = 0; plane < planes; ++plane)
            optimizer_.push_back({s.param.name + suffix(plane),
                                  tensor_in(optimizer_buffer_, size_t(plane) * arena_ + s.begin, s.param.shape)});
    }
}

std::vector<size_t> running_offsets(const Graph& graph) {
    std::vector<size_t> offsets;
    size_t at = 0;
    for (const Param& p : graph.params) {
        offsets.push_back(p.trained ? 0 : at);
        at += p.trained ? 0 : padded(p.shape.count());
    }
    offsets.push_back(at);
    return offsets;
}

void State::allocate_running(const Graph& graph, TensorMemory& memory) {
    const std::vector<size_t> offsets = running_offsets(graph);
    const size_t running = offsets.back();
    const size_t all = look_ahead_ < 0 ? running : 2 * running;
    running_ = memory.allocate(all * size_t(replicas_) * sizeof(float));
    running_tensor_ = tensor_in(running_, 0, {1, 1, 1, int(all)});
    for (size_t id = 0; id < graph.params.size(); ++id)
        if (!graph.params[id].trained) params_[id] = tensor_in(running_, offsets[id], graph.params[id].shape);
}

Tensor State::running(int replica) const {
    return tensor_in(running_, size_t(replica) * running_tensor_.count(), running_tensor_.shape);
}

Operands State::operands(int replica, float* arena) const {
    auto* const own = static_cast<float*>(gradients_buffer_.get());
    Operands o{params_, gradients_, arena ? arena : own, nullptr, nullptr};
    for (Tensor& p : o.params)
        if (!is_trained(p)) p.data = p.as<float>() + size_t(replica) * running_tensor_.count();
    for (Tensor& g : o.gradients)
        if (g.data) g.data = o.arena + (g.as<float>() - own);
    o.stats = reinterpret_cast<BatchStats*>(o.arena);
    o.own = own_stats() ? own_stats() + replica : nullptr;
    return o;
}

Tensor State::gradient_slice(size_t begin, size_t end) const {
    return tensor_in(gradients_buffer_, begin, {1, 1, 1, int(end - begin)});
}

Update State::update(const OptimizerSpec& spec, const ParamRules& rules) const {
    Update u{.spec = spec,
             .weights = static_cast<float*>(weights_.get()),
             .gradients = static_cast<float*>(gradients_buffer_.get()),
             .state = static_cast<float*>(optimizer_buffer_.get()),
             .count = arena_,
             .segments = {},
             .learning_rates = nullptr,
             .counters = nullptr,
             .stats = stats(),
             .latch = false};
    for (const Segment& s : segments_) {
        const ParamRule rule = rules(s.param);
        UpdateSegment next{s.begin, s.end, rule.weight_decay, rule.learning_rate, rule.steps};
        if (rule.muon) {
            next.rows = s.param.shape.n;
            next.columns = int(s.param.shape.count() / size_t(s.param.shape.n));
        }
        UpdateSegment* last = u.segments.empty() ? nullptr : &u.segments.back();
        if (last && !last->rows && !next.rows && last->weight_decay == next.weight_decay &&
            last->learning_rate == next.learning_rate && last->steps == next.steps)
            last->end = s.end;
        else
            u.segments.push_back(next);
    }
    return u;
}

Update State::update(const OptimizerSpec& spec, float weight_decay, bool decay_weights_only) const {
    return update(spec,
                  [&](const Param& p) { return ParamRule{p.is_weight || !decay_weights_only ? weight_decay : 0.0f}; });
}

LookAhead State::look_ahead(const Update& update, int replica) const {
    require(look_ahead_ >= 0, "a state without averages is not asked for look-ahead");
    const size_t running = running_tensor_.count() / 2;
    auto* first = this->running(replica).as<float>();
    return {.weights = update.weights,
            .slow = update.state + size_t(look_ahead_) * arena_,
            .count = arena_,
            .segments = update.segments,
            .running = first,
            .slow_running = first + running,
            .running_count = running,
            .decays = nullptr,
            .counters = nullptr,
            .stats = nullptr};
}

void State::start_look_ahead(TensorMemory& memory) const {
    if (look_ahead_ < 0) return;
    for (int replica = 0; replica < replicas_; ++replica) {
        const LookAhead l = look_ahead(update({}, 0, false), replica);
        std::vector<float> values(std::max(l.count, l.running_count));
        for (const auto& [from, to, count] :
             {std::tuple{l.weights, l.slow, l.count}, {l.running, l.slow_running, l.running_count}}) {
            memory.download(values.data(), from, count * sizeof(float));
            memory.upload(to, values.data(), count * sizeof(float));
        }
    }
}

void State::initialise(const Graph& graph, TensorMemory& memory, uint64_t seed) {
    std::vector<float> values;
    for (size_t id = 0; id < graph.params.size(); ++id) {
        const Param& p = graph.params[id];
        const bool draws = p.init.kind != Init::constant && p.init.kind != Init::whitening;
        values.assign(p.shape.count(), p.init.a);
        for (size_t i = 0; draws && i < values.size(); i += 4) {
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
        if (p.init.kind == Init::identity) copy_channels(p.shape, values);
        for (int replica = 0; replica < (p.trained ? 1 : replicas_); ++replica)
            memory.upload(operands(replica).params[id].data, values.data(), values.size() * sizeof(float));
    }
}

}  // namespace convoy
