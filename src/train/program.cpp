// Prepares and lowers programs. Events are numbered: 0 is gather, then forward of each op, then
// backward in reverse. A buffer lives from the first event that writes it to the last that reads
// it. The backend appends launches in that order.
#include "train/program.h"

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

class Preparation {
public:
    Preparation(const Graph& graph, OpTuning& backend, const ProgramSpec& spec)
        : graph_(graph), writers_(writers_of(graph)), ops_(int(graph.ops.size())) {
        prepared_.spec = spec;
        prepared_.gradients = gradient_flow(graph);
        const ProgramShape program{graph, spec.batch, spec.training, prepared_.gradients};
        backend.tune(program);
        prepared_.algorithms = backend.select(program);
        prepared_.value.assign(graph.values.size(), none);
        prepared_.gradient.assign(graph.values.size(), none);
        prepared_.saved.assign(graph.ops.size(), none);
        place_values();
        if (spec.training) place_gradients();
        for (int i = 0; i < ops_; ++i)
            if (const size_t bytes = memory(i).saved; bytes > 0 && spec.training)
                prepared_.saved[i] = add({bytes, forward(i), backward(i)});
        prepared_.memory = lay_out_memory(prepared_.buffers);
    }
    PreparedProgram take() { return std::move(prepared_); }

private:
    int forward(int op) const { return 1 + op; }
    int backward(int op) const { return 2 * ops_ - op; }
    const OpMemory& memory(int op) const { return prepared_.algorithms->memory[op]; }
    int end() const { return 2 * ops_ + 1; }
    int add(Lifetime life) {
        prepared_.buffers.push_back(life);
        return int(prepared_.buffers.size()) - 1;
    }
    size_t bytes_of(ValueId v) const {
        const Value& value = graph_.values[v];
        return value.batched(prepared_.spec.batch).count() * size_of(value.dtype);
    }

    void place_values() {
        prepared_.value[graph_.input] = add({bytes_of(graph_.input), 0, 0});
        prepared_.labels = add({sizeof(int32_t) * size_t(prepared_.spec.batch), 0, end()});
        if (prepared_.spec.mixes)
            prepared_.mixed =
                add({(sizeof(int32_t) + sizeof(float)) * size_t(std::max(1, prepared_.spec.batch)), 0, end()});
        for (int i = 0; i < ops_; ++i) {
            const Op& op = graph_.ops[i];
            for (ValueId x : inputs_of(op)) use(x, forward(i));
            if (const ValueId y = output_of(op); y != none && memory(i).writes_value)
                prepared_.value[y] = add({bytes_of(y), forward(i), forward(i)});
            if (prepared_.spec.training && prepared_.gradients.reaches(op))
                for (ValueId v : saved_of(op)) use(v, backward(i));
            if (const auto* loss = std::get_if<SoftmaxXent>(&op)) use(loss->x, end());
        }
    }
    /// Extends the life of a value's buffer to `event`. A value without a buffer is recomputed, so
    /// this extends the inputs of its op instead.
    void use(ValueId v, int event) {
        if (const int writer = writers_[v]; writer != none && !memory(writer).writes_value) {
            for (ValueId x : inputs_of(graph_.ops[writer])) use(x, event);
            return;
        }
        require(prepared_.value[v] != none, "an op reads only what an op before it wrote");
        int& last = prepared_.buffers[prepared_.value[v]].last;
        last = std::max(last, event);
    }

    void place_gradients() {
        for (int i = ops_ - 1; i >= 0; --i) {
            if (!prepared_.gradients.reaches(graph_.ops[i])) continue;
            const int by = memory(i).gradients_by == none ? i : memory(i).gradients_by;
            for (const ValueId x : inputs_of(graph_.ops[i])) {
                const int writer = writers_[x];
                if (prepared_.gradients.wanted[x] && prepared_.gradient[x] == none && memory(writer).writes_gradient)
                    prepared_.gradient[x] = add({bytes_of(x), backward(by), backward(by)});
            }
            const ValueId y = output_of(graph_.ops[i]);
            if (y == none || !memory(i).writes_gradient) continue;
            require(prepared_.gradient[y] != none, "what an op writes is read by an op after it");
            prepared_.buffers[prepared_.gradient[y]].last = backward(i);
        }
    }

    const Graph& graph_;
    const std::vector<int> writers_;
    const int ops_;
    PreparedProgram prepared_;
};

std::string title_of(const Graph& graph, const Op& op) {
    const std::vector<ParamId> params = params_of(op);
    if (!params.empty()) return graph.params[params[0]].name.substr(0, graph.params[params[0]].name.rfind('.'));
    return graph.values[inputs_of(op)[0]].name;
}

/// The tensors of a program's values and gradients.
struct Binding {
    std::vector<Tensor> values, gradients;
    std::vector<void*> saved;  ///< memory from forward to backward, by op
    Tensor labels;
    MixedLabels mixed;

    Binding(const Graph& graph, const PreparedProgram& prepared, char* arena)
        : values(bind(graph, prepared, prepared.value, arena)),
          gradients(bind(graph, prepared, prepared.gradient, arena)) {
        for (const int buffer : prepared.saved)
            saved.push_back(buffer == none ? nullptr : arena + prepared.memory.offset[buffer]);
        labels = {arena + prepared.memory.offset[prepared.labels], {prepared.spec.batch, 1, 1, 1}, DType::i32};
        if (prepared.mixed == none) return;
        mixed.partners = reinterpret_cast<int32_t*>(arena + prepared.memory.offset[prepared.mixed]);
        mixed.shares = reinterpret_cast<float*>(mixed.partners + prepared.spec.batch);
    }
    static std::vector<Tensor> bind(const Graph& graph, const PreparedProgram& prepared, const std::vector<int>& buffer,
                                    char* arena) {
        std::vector<Tensor> tensors;
        for (size_t v = 0; v < graph.values.size(); ++v) {
            void* data = buffer[v] == none ? nullptr : arena + prepared.memory.offset[buffer[v]];
            tensors.push_back(
                {data, graph.values[v].batched(prepared.spec.batch), graph.values[v].dtype, graph.values[v].padding});
        }
        return tensors;
    }
};

/// Lets the backend append each op's launches, in the order in which they run.
class Lowering {
public:
    Lowering(const ProgramContext& c, const PreparedProgram& prepared)
        : c_(c),
          prepared_(prepared),
          spec_(prepared.spec),
          operands_(c.logical    ? c.logical->operands
                    : c.operands ? *c.operands
                                 : c.state.operands()),
          gradients_(gradients_of(c.graph, operands_)),
          arena_(static_cast<char*>(c.arena.get())),
          binding_(c.graph, prepared, arena_) {}

    Program run(const std::vector<Bucket>& buckets, const std::function<void(Program&)>& gather) {
        program_.input = binding_.values[c_.graph.input];
        program_.labels = binding_.labels;
        program_.mixed = binding_.mixed;
        program_.logits = binding_.values[std::get<SoftmaxXent>(c_.graph.ops.back()).x];
        if (gather) gather(program_);
        if (spec_.batch == 0) zero_sums();
        forward();
        if ((c_.requests || c_.logical) && spec_.training)  // between the loss and the first all-reduce
            c_.backend.request(c_.requests, operands_.stats, operands_.own, program_.tape);
        if (spec_.training) backward(buckets);
        return std::move(program_);
    }

private:
    /// Returns the gradients that this program writes, by ParamId; the others have no data.
    static std::vector<Tensor> gradients_of(const Graph& graph, const Operands& operands) {
        std::vector<Tensor> gradients = operands.gradients;
        for (size_t id = 0; id < gradients.size(); ++id)
            if (!graph.params[id].has_gradient()) gradients[id].data = nullptr;
        return gradients;
    }

    OpArguments arguments(size_t i) const {
        return {.op = int(i),
                .name = title_of(c_.graph, c_.graph.ops[i]),
                .graph = c_.graph,
                .algorithms = *prepared_.algorithms,
                .values = binding_.values,
                .value_gradients = binding_.gradients,
                .params = operands_.params,
                .param_gradients = gradients_,
                .accumulate = prepared_.gradients.accumulate[i],
                .saved = binding_.saved,
                .labels = binding_.labels,
                .mixed = binding_.mixed,
                .stats = operands_.stats,
                .counters = c_.counters,
                .global_batch = spec_.global_batch,
                .first = spec_.first,
                .seed = c_.seed,
                .training = spec_.training};
    }

    /// True if this rank runs the op. A rank without samples still takes part in collectives.
    bool runs(const Op& op) const {
        const auto* norm = std::get_if<BatchNorm>(&op);
        return spec_.batch > 0 || (c_.sync_bn && spec_.training && norm && !norm->fixed);
    }

    void zero_sums() {
        if (spec_.training)
            c_.backend.zero(slice(0, c_.state.end_of_arena()), program_.tape);
        else
            c_.backend.zero({operands_.stats, {1, 1, 1, int(stats_elements)}, DType::f32}, program_.tape);
    }

    void forward() {
        for (size_t i = 0; i < c_.graph.ops.size(); ++i) {
            const Op& op = c_.graph.ops[i];
            if (c_.view && spec_.batch > 0 && std::holds_alternative<SoftmaxXent>(op)) {
                c_.backend.add_scaled(program_.logits, c_.view->weight, c_.view->sum, !c_.view->first, program_.tape);
                if (!c_.view->last) break;
                c_.backend.add_scaled(c_.view->sum, 1, program_.logits, false, program_.tape);
            }
            const size_t before = program_.tape.size();
            if (runs(op)) c_.backend.forward(op, arguments(i), program_.tape);
            if (const ValueId y = output_of(op); y != none) probe(i, "", binding_.values[y]);
            if (program_.tape.size() > before) settle_probes();
        }
    }

    void backward(const std::vector<Bucket>& buckets) {
        size_t complete = stats_elements, next = 0;  // finished elements of the gradient arena; next bucket
        for (size_t i = c_.graph.ops.size(); i-- > 0;) {
            const Op& op = c_.graph.ops[i];
            if (runs(op) && prepared_.gradients.reaches(op)) c_.backend.backward(op, arguments(i), program_.tape);
            for (ValueId x : inputs_of(op)) probe(i, " backward", binding_.gradients[x]);
            for (ParamId id : params_of(op)) {
                // Other programs write this gradient, and this one does not. Zero it, because an
                // old sum must not be all-reduced again.
                if (const Tensor& g = operands_.gradients[id]; g.data && !gradients_[id].data && spec_.batch > 0)
                    c_.backend.zero(g, program_.tape);
                unfinished_.emplace_back(i, id);
                complete = std::max(complete, c_.state.end_of(id));
            }
            if (next < buckets.size() && buckets[next].end <= complete) finish_gradients();
            for (; next < buckets.size() && buckets[next].end <= complete; ++next) allreduce(buckets[next]);
        }
        finish_gradients();
        require(next == buckets.size(), "every gradient bucket is reduced");
        if (!c_.logical && !c_.local) c_.backend.wait_allreduce(program_.tape);
    }

    /// Finishes the gradients so far, and adds their probes. Call it before their all-reduce.
    void finish_gradients() {
        c_.backend.finish_gradients(program_.tape);
        for (const auto& [op, id] : std::exchange(unfinished_, {})) probe(op, " backward", gradients_[id]);
    }

    Tensor slice(size_t begin, size_t end) const {
        return {operands_.arena + begin, {1, 1, 1, int(end - begin)}, DType::f32};
    }

    /// Adds a bucket to the checksum. Leaves out batch sums other than loss and hits, because
    /// requests differ between ranks.
    void add_to_checksum(const Bucket& b) {
        if (!c_.checksum) return;
        constexpr size_t hits_end = 3;  // BatchStats::loss_sum, correct and top5
        const auto add = [&](size_t begin, size_t end) {
            if (begin >= end) return;
            Checksum part = *c_.checksum;
            part.values = slice(begin, end);
            part.index = int64_t(begin);
            c_.backend.checksum(part, program_.tape);
        };
        if (b.begin == 0) add(0, hits_end);
        add(std::max(b.begin, stats_elements), b.end);
    }

    void allreduce(const Bucket& b) {
        add_to_checksum(b);
        if (c_.local) return;
        if (c_.logical) {
            c_.backend.accumulate_exact(c_.logical->sums, operands_.arena, b.begin, b.end, program_.tape);
            if (c_.logical->last) c_.backend.allreduce(c_.logical->sums, b.begin, b.end, program_.tape);
            return;
        }
        const size_t counts = b.begin == 0 ? stats_elements : 0;
        c_.backend.allreduce(slice(b.begin, b.end), counts, program_.tape);
    }

    void probe(size_t op, const char* direction, const Tensor& output) {
        if (!output.data || spec_.batch == 0) return;
        const std::string name =
            title_of(c_.graph, c_.graph.ops[op]) + " (" + name_of(c_.graph.ops[op]) + direction + ")";
        program_.probes.push_back({program_.tape.size(), name, output});
    }
    /// Sets the place of new probes to the end of the tape so far. If an op has no launches, the
    /// next op that has some writes its output.
    void settle_probes() {
        for (; settled_ < program_.probes.size(); ++settled_) program_.probes[settled_].after = program_.tape.size();
    }

    const ProgramContext& c_;
    const PreparedProgram& prepared_;
    const ProgramSpec& spec_;
    const Operands operands_;
    const std::vector<Tensor> gradients_;
    char* arena_;
    const Binding binding_;
    Program program_;
    size_t settled_ = 0;                                  // number of probes with a place
    std::vector<std::pair<size_t, ParamId>> unfinished_;  // gradients since finish_gradients(), each with its op
};

}  // namespace

PreparedProgram prepare_program(const Graph& graph, OpTuning& backend, const ProgramSpec& spec) {
    return Preparation(graph, backend, spec).take();
}

std::vector<PreparedProgram> prepare_parts(const BatchSplit& batch_split, int rank, int64_t samples,
                                           const std::function<PreparedProgram(const Share&)>& prepare,
                                           bool every_size) {
    if (batch_split.logical == batch_split.ranks && !every_size)
        return {prepare(share_of(samples, batch_split.ranks, rank))};
    const int64_t larger = share_of(samples, batch_split.logical, 0).count;
    std::vector<PreparedProgram> known = {prepare({0, larger})};
    if (samples % batch_split.logical != 0) known.push_back(prepare({0, larger - 1}));
    std::vector<PreparedProgram> parts;
    const Share mine = batch_split.logical_of(rank);
    for (int64_t i = mine.first; i < mine.first + mine.count; ++i) {
        const Share share = share_of(samples, batch_split.logical, i);
        parts.push_back(share.count == larger ? known.front() : known.back());
        parts.back().spec.first = share.first;
    }
    return parts;
}

Program lower(const ProgramContext& c, const PreparedProgram& prepared, const std::vector<Bucket>& buckets,
              const std::function<void(Program&)>& gather) {
    return Lowering(c, prepared).run(buckets, gather);
}

}  // namespace convoy
