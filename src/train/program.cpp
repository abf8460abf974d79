// Lowering: events are numbered (0 gather, then forward, then backward in reverse), buffers live from the first event that
// writes them to the last that reads them, and the backend is asked for each op's steps in that order.
#include "train/program.h"

#include <algorithm>

namespace convoy {
namespace {

class Planner {
public:
    Planner(const Graph& graph, Backend& backend, const ProgramSpec& spec) : graph_(graph), ops_(int(graph.ops.size())), producer_(graph.values.size(), none) {
        plan_.spec = spec;
        plan_.value.assign(graph.values.size(), none);
        plan_.gradient.assign(graph.values.size(), none);
        plan_.saved.assign(graph.ops.size(), none);
        for (int i = 0; i < ops_; ++i)
            if (const ValueId y = output_of(graph.ops[i]); y != none) producer_.at(size_t(y)) = i;
        plan_values();
        if (spec.training) plan_gradients();
        for (int i = 0; i < ops_; ++i)
            if (const size_t bytes = backend.saved_bytes(graph.ops[i], graph, spec.batch); bytes > 0 && spec.training)
                plan_.saved[i] = add({bytes, forward(i), last_read(i)});
        plan_.memory = plan_memory(plan_.buffers);
    }
    ProgramPlan take() { return std::move(plan_); }

private:
    int forward(int op) const { return 1 + op; }
    int backward(int op) const { return 2 * ops_ - op; }
    /// When backward last reads what belongs to an op: a backend may do a batch norm's gradient together with that of the max-pool in front.
    int last_read(int op) const {
        const auto* norm = std::get_if<BatchNorm>(&graph_.ops[size_t(op)]);
        const int before = norm ? producer_[size_t(norm->x)] : none;
        const bool pooled = before != none && std::holds_alternative<Pool>(graph_.ops[size_t(before)]);
        return backward(pooled ? before : op);
    }
    int end() const { return 2 * ops_ + 1; }
    int add(Lifetime life) {
        plan_.buffers.push_back(life);
        return int(plan_.buffers.size()) - 1;
    }
    size_t bytes_of(ValueId v) const {
        const Value& value = graph_.values[v];
        return value.batched(plan_.spec.batch).count() * size_of(value.dtype);
    }

    void plan_values() {
        plan_.value[graph_.input] = add({bytes_of(graph_.input), 0, 0});
        plan_.labels = add({sizeof(int32_t) * size_t(plan_.spec.batch), 0, end()});
        for (int i = 0; i < ops_; ++i) {
            const Op& op = graph_.ops[i];
            for (ValueId x : inputs_of(op)) use(x, forward(i));
            if (const ValueId y = output_of(op); y != none) plan_.value[y] = add({bytes_of(y), forward(i), forward(i)});
            if (plan_.spec.training)
                for (ValueId v : saved_of(op)) use(v, last_read(i));
            if (const auto* loss = std::get_if<SoftmaxXent>(&op)) use(loss->x, end());
        }
    }
    void use(ValueId v, int event) {
        require(plan_.value[v] != none, "an op reads only what an op before it wrote");
        int& last = plan_.buffers[plan_.value[v]].last;
        last = std::max(last, event);
    }

    void plan_gradients() {
        plan_.accumulate.assign(graph_.ops.size(), std::vector<bool>(graph_.values.size(), false));
        for (int i = ops_ - 1; i >= 0; --i) {
            const std::vector<ValueId> inputs = inputs_of(graph_.ops[i]);
            for (size_t k = 0; k < inputs.size(); ++k) {
                const ValueId x = inputs[k];
                if (x == graph_.input) continue;         // nobody wants the gradient of the images
                if (k > 0 && x == inputs[0]) continue;  // an op that reads a value twice adds the second share itself
                if (plan_.gradient[x] == none)
                    plan_.gradient[x] = add({bytes_of(x), backward(i), backward(i)});
                else
                    plan_.accumulate[i][x] = true;
            }
            const ValueId y = output_of(graph_.ops[i]);
            if (y == none) continue;
            require(plan_.gradient[y] != none, "what an op writes is read by an op after it");
            plan_.buffers[plan_.gradient[y]].last = last_read(i);
        }
    }

    const Graph& graph_;
    const int ops_;
    std::vector<int> producer_;  // by value
    ProgramPlan plan_;
};

std::string title_of(const Graph& graph, const Op& op) {
    const std::vector<ParamId> params = params_of(op);
    if (!params.empty()) return graph.params[params[0]].name.substr(0, graph.params[params[0]].name.rfind('.'));
    return graph.values[inputs_of(op)[0]].name;
}

/// Everything the ops of one program are bound to.
struct Binding {
    std::vector<Tensor> values, gradients;
    Tensor labels;

    Binding(const Graph& graph, const ProgramPlan& plan, char* arena)
        : values(bind(graph, plan, plan.value, arena)), gradients(bind(graph, plan, plan.gradient, arena)) {
        labels = {arena + plan.memory.offset[plan.labels], {plan.spec.batch, 1, 1, 1}, DType::i32};
    }
    static std::vector<Tensor> bind(const Graph& graph, const ProgramPlan& plan, const std::vector<int>& buffer, char* arena) {
        std::vector<Tensor> tensors;
        for (size_t v = 0; v < graph.values.size(); ++v) {
            void* data = buffer[v] == none ? nullptr : arena + plan.memory.offset[buffer[v]];
            tensors.push_back({data, graph.values[v].batched(plan.spec.batch), graph.values[v].dtype, graph.values[v].padding});
        }
        return tensors;
    }
};

}  // namespace

ProgramPlan plan_program(const Graph& graph, Backend& backend, const ProgramSpec& spec) { return Planner(graph, backend, spec).take(); }

Program lower(const ProgramContext& c, const ProgramPlan& plan, const std::vector<Bucket>& buckets,
              const std::function<void(Program&)>& gather) {
    char* arena = static_cast<char*>(c.arena.get());
    const Binding binding(c.graph, plan, arena);
    const ProgramSpec& spec = plan.spec;
    const std::vector<bool> fresh(c.graph.values.size(), false);
    const std::vector<int> readers = readers_of(c.graph);
    const auto bound = [&](size_t i) {
        void* saved = plan.saved[i] == none ? nullptr : arena + plan.memory.offset[plan.saved[i]];
        return Bound{title_of(c.graph, c.graph.ops[i]), binding.values, binding.gradients, c.state.params(), c.state.gradients(),
                     spec.training ? plan.accumulate[i] : fresh, readers, saved, binding.labels, c.state.stats(), c.counters,
                     spec.global_batch, spec.first, c.seed, spec.training};
    };
    // A rank without samples still takes part in what its peers wait for.
    const auto runs = [&](const Op& op) { return spec.batch > 0 || (c.sync_bn && spec.training && std::holds_alternative<BatchNorm>(op)); };

    Program program;
    program.input = binding.values[c.graph.input];
    program.labels = binding.labels;
    program.logits = binding.values[std::get<SoftmaxXent>(c.graph.ops.back()).x];
    if (gather) gather(program);
    if (spec.batch == 0) {
        const size_t all = spec.training ? c.state.end_of_arena() : 0;
        if (spec.training)
            c.backend.zero(c.state.gradient_slice(0, all), program.tape);
        else
            c.backend.zero({c.state.stats(), {1, 1, 1, int(stats_elements)}, DType::f32}, program.tape);
    }
    if (c.requests && spec.training) c.backend.request(c.requests, c.state.stats(), program.tape);
    const auto probe = [&](size_t op, const char* direction, const Tensor& output) {
        if (output.data && spec.batch > 0)
            program.probes.push_back({program.tape.size(), title_of(c.graph, c.graph.ops[op]) + " (" + name_of(c.graph.ops[op]) + direction + ")", output});
    };
    for (size_t i = 0; i < c.graph.ops.size(); ++i) {
        if (c.view && spec.batch > 0 && std::holds_alternative<SoftmaxXent>(c.graph.ops[i])) {
            c.backend.add_scaled(program.logits, c.view->weight, c.view->sum, !c.view->first, program.tape);
            if (!c.view->last) break;
            c.backend.add_scaled(c.view->sum, 1, program.logits, false, program.tape);
        }
        if (runs(c.graph.ops[i])) std::visit([&](const auto& op) { c.backend.forward(op, bound(i), program.tape); }, c.graph.ops[i]);
        if (const ValueId y = output_of(c.graph.ops[i]); y != none) probe(i, "", binding.values[y]);
    }
    if (!spec.training) return program;
    std::erase_if(program.probes, [&](const Probe& p) { return p.after > 0 && !program.tape[p.after - 1].writes; });

    size_t complete = stats_elements, next = 0;
    for (size_t i = c.graph.ops.size(); i-- > 0;) {
        const size_t before = program.tape.size();
        if (runs(c.graph.ops[i])) std::visit([&](const auto& op) { c.backend.backward(op, bound(i), program.tape); }, c.graph.ops[i]);
        // An op that became one step with the one before: nobody wrote what lay between them.
        if (const ValueId y = output_of(c.graph.ops[i]); y != none && program.tape.size() == before)
            std::erase_if(program.probes, [&](const Probe& p) { return p.after == before && p.output.data == binding.gradients[y].data; });
        for (ValueId x : inputs_of(c.graph.ops[i])) probe(i, " backward", binding.gradients[x]);
        for (ParamId id : params_of(c.graph.ops[i])) {
            probe(i, " backward", c.state.gradients()[id]);
            complete = std::max(complete, c.state.end_of(id));
        }
        for (; next < buckets.size() && buckets[next].end <= complete; ++next)
            c.backend.allreduce(c.state.gradient_slice(buckets[next].begin, buckets[next].end), program.tape);
    }
    require(next == buckets.size(), "every gradient bucket is reduced");
    c.backend.wait_allreduce(program.tape);
    return program;
}

}  // namespace convoy
