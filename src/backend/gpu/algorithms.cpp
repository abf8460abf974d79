#include "backend/gpu/algorithms.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace convoy::cuda {

std::string KernelSpec::key() const {
    constexpr const char* names[] = {"kernels-norm",          "kernels-normalise",        "kernels-statistics",
                                     "kernels-norm-gradient", "kernels-gradient-of-sums", "kernels-residual-gradient",
                                     "kernels-addition"};
    std::ostringstream out;
    out << names[kind] << ' ' << name_of(x.dtype) << " n" << x.shape.n << ' ' << x.shape.h << 'x' << x.shape.w << 'x'
        << x.shape.c << " act" << int(act);
    if (residual) out << " residual" << residual->channels() << (accumulate_residual ? "+" : "");
    if (accumulate_x) out << " x+";
    return out.str();
}

std::vector<PlanSpec> GpuAlgorithms::plans() const {
    std::map<std::string, PlanSpec> all;
    const auto add = [&](const PlanSpec& s) { all.emplace(s.key(), s); };
    for (const OpAlgorithm& algorithm : per_op) {
        if (algorithm.gemm.forward) add(*algorithm.gemm.forward);
        if (algorithm.gemm.weight_gradient) add(*algorithm.gemm.weight_gradient);
        if (algorithm.gemm.data_gradient) add(*algorithm.gemm.data_gradient);
        if (algorithm.norm.forward_by == NormAlgorithm::plan) add(algorithm.norm.forward);
        if (algorithm.norm.gradient_by == NormAlgorithm::plan) add(algorithm.norm.gradient);
    }
    std::vector<PlanSpec> plans;
    for (const auto& [key, spec] : all) plans.push_back(spec);
    return plans;
}

namespace {

/// Returns true if batch norm's kernels can be fused with this pool: its windows are adjacent.
bool side_by_side(const Pool& op) {
    return op.kind == Pool::max && op.stride == op.kernel && op.pad == 0 && (op.kernel == 2 || op.kernel == 3);
}

/// Returns the time of running one after the other.
float sum(float a, float b) { return a == missing || b == missing ? missing : std::min(a + b, untimed); }

class Selector {
public:
    Selector(const ProgramShape& program, const AlgorithmOptions& options, const Timing& timing)
        : graph_(program.graph),
          program_(program),
          options_(options),
          timing_(timing),
          reader_count_(readers_of(graph_)),
          writer_(writers_of(graph_)),
          last_reader_(graph_.values.size(), none),
          normalise_(graph_.ops.size(), 0) {
        result_.memory.resize(graph_.ops.size());
        result_.per_op.resize(graph_.ops.size());
        result_.considered.resize(graph_.ops.size());
        for (size_t i = 0; i < graph_.ops.size(); ++i)
            for (const ValueId x : inputs_of(graph_.ops[i])) last_reader_[x] = int(i);
    }

    GpuAlgorithms select() {
        for (at_ = 0; at_ < int(graph_.ops.size()); ++at_)
            std::visit([&](const auto& op) { forward(op); }, graph_.ops[at_]);
        if (program_.training)
            for (at_ = int(graph_.ops.size()); at_-- > 0;)
                std::visit([&](const auto& op) { backward(op); }, graph_.ops[at_]);
        for (size_t i = 0; program_.training && i < graph_.ops.size(); ++i) result_.memory[i].saved = saved(i);
        return std::move(result_);
    }

private:
    OpAlgorithm& algorithm(int op) { return result_.per_op[op]; }
    Tensor tensor(ValueId v) const {
        const Value& value = graph_.values[v];
        return {nullptr, value.batched(program_.batch), value.dtype, value.padding};
    }
    bool wanted(ValueId v) const { return program_.gradients.wanted[v]; }
    bool frozen(ParamId p) const { return p != none && graph_.params[p].frozen; }
    bool adds_to(ValueId v) const { return program_.gradients.accumulate[at_][v]; }
    bool fuses() const { return options_.norm_by == NormBy::measured || options_.norm_by == NormBy::convolutions; }
    bool prefer(float fused, float apart) const {
        return options_.norm_by == NormBy::convolutions || (fused < untimed && fused <= apart);
    }
    float time(const PlanSpec& spec, int op) {
        std::vector<PlanSpec>& mine = result_.considered[op];
        if (std::none_of(mine.begin(), mine.end(), [&](const PlanSpec& s) { return s.key() == spec.key(); }))
            mine.push_back(spec);
        return timing_.plan(spec);
    }
    float time_or_note(const PlanSpec& spec, int op, const char* instead) {
        const float t = time(spec, op);
        if (t == missing)
            result_.notes.insert("cuDNN has no engine, or none in time, for '" + spec.family() +
                                 "' in some sizes: " + instead);
        return t;
    }

    // ---- convolutions and linear layers ----
    template <class Gemm, class SpecOf> void gemm(const Gemm& op, SpecOf spec_of) {
        if (program_.batch == 0) return;
        GemmAlgorithm& p = algorithm(at_).gemm;
        p.forward = spec_of(PlanSpec::conv);
        time(*p.forward, at_);
        if (program_.training && !frozen(op.weight)) p.weight_gradient = spec_of(PlanSpec::conv_weight_gradient);
        if (program_.training && wanted(op.x)) p.data_gradient = spec_of(PlanSpec::conv_data_gradient);
    }
    void forward(const Conv& op) {
        const Tensor x = tensor(op.x), y = tensor(op.y);
        gemm(op,
             [&](PlanSpec::Kind kind) { return conv_spec(kind, op, x.shape, y.shape, x.dtype, options_.precision); });
    }
    void forward(const Linear& op) {
        const Tensor x = tensor(op.x);
        const int out = graph_.values[op.y].c;
        gemm(op, [&](PlanSpec::Kind kind) { return linear_spec(kind, x.shape, out, x.dtype, options_.precision); });
    }
    template <class Gemm> void gemm_gradients(const Gemm& op) {
        GemmAlgorithm& p = algorithm(at_).gemm;
        if (p.weight_gradient) time(*p.weight_gradient, at_);
        if (!p.data_gradient) return;
        const float plain = time(*p.data_gradient, at_);
        if (!adds_to(op.x)) return;
        PlanSpec adding = *p.data_gradient;
        adding.add = true;
        const float fused = time_or_note(adding, at_, "a kernel adds the gradient afterwards");
        if (fused < untimed && fused <= sum(plain, timing_.kernels({.kind = KernelSpec::addition, .x = tensor(op.x)})))
            p.data_gradient = adding;
    }
    void backward(const Conv& op) { gemm_gradients(op); }
    void backward(const Linear& op) { gemm_gradients(op); }

    // ---- batch norms ----
    KernelSpec kernels(KernelSpec::Kind kind, const BatchNorm& op) const {
        KernelSpec s{.kind = kind, .x = tensor(op.x), .act = op.act};
        if (op.residual != none) s.residual = tensor(op.residual);
        if (kind != KernelSpec::norm_gradient && kind != KernelSpec::gradient_of_sums) return s;
        s.accumulate_x = adds_to(op.x);
        s.accumulate_residual = op.residual != none && adds_to(op.residual);
        return s;
    }
    PlanSpec norm_plan(PlanSpec::Kind kind, const BatchNorm& op) const {
        PlanSpec s = norm_spec(kind, op, tensor(op.x).shape, tensor(op.x).dtype);
        if (kind == PlanSpec::norm_gradient) s.multiprocessors = options_.norm_multiprocessors;
        return s;
    }
    /// Returns the time of cuDNN's plan; missing if there is none or it must not be used.
    float time_of_plan(PlanSpec::Kind kind, const BatchNorm& op) {
        const Tensor x = tensor(op.x), residual = op.residual == none ? Tensor{} : tensor(op.residual);
        if (options_.norm_by == NormBy::kernels || !norm_by_cudnn(op, x, &residual, options_.precision)) return missing;
        const float t = time_or_note(norm_plan(kind, op), at_, "kernels/batchnorm runs");
        const bool masked_before = kind == PlanSpec::norm_gradient && op.residual != none;
        return t == missing || !masked_before ? t : sum(t, timing_.kernels(kernels(KernelSpec::residual_gradient, op)));
    }
    bool plan_wins(float plan, const KernelSpec& ours) const {
        if (options_.norm_by == NormBy::plans) return plan != missing;
        return plan < untimed && plan <= timing_.kernels(ours);
    }
    /// Returns the time of the batch norm if no convolution does a part of it.
    float time_alone(float plan, const KernelSpec& ours) const {
        return plan_wins(plan, ours) ? plan : timing_.kernels(ours);
    }

    void forward(const BatchNorm& op) {
        NormAlgorithm& norm = algorithm(at_).norm;
        if (op.fixed && program_.training) {
            norm.forward_by = NormAlgorithm::fixed;
            return;
        }
        if (options_.synchronised && program_.training) norm.forward_by = NormAlgorithm::synchronised;
        if (options_.synchronised || program_.batch == 0 || !program_.training) return;
        const float plan = time_of_plan(PlanSpec::norm, op);
        if (sums_by_producer(op, plan)) {
            norm.forward_by = NormAlgorithm::sums;
            move_into_reader(writer_[op.x]);
        } else if (plan_wins(plan, kernels(KernelSpec::norm, op))) {
            norm.forward_by = NormAlgorithm::plan;
            norm.forward = norm_plan(PlanSpec::norm, op);
        } else if (const int before = pool_before(op); before != none) {
            // y may overwrite the pool's input, because only the norm's first kernel reads that.
            norm.pool = before;
            algorithm(before).pool.by_norm = true;
        }
    }
    /// Decides whether the convolution before this norm writes the norm's sums.
    bool sums_by_producer(const BatchNorm& op, float plan) {
        const int producer = writer_[op.x];
        const auto* conv = producer == none ? nullptr : std::get_if<Conv>(&graph_.ops[producer]);
        if (!fuses() || !conv || conv->bias != none || !sums_by_conv(op, tensor(op.x).dtype)) return false;
        PlanSpec& plain = *algorithm(producer).gemm.forward;
        if (plain.statistics) return false;  // its sums are for another batch norm
        PlanSpec fused = plain;
        fused.statistics = true;
        const float t = time_or_note(fused, producer, "the batch norm computes its sums");
        if (t == missing) return false;
        const float normalise = normalise_[at_] = timing_.kernels(kernels(KernelSpec::normalise, op));
        if (!prefer(sum(t, normalise), sum(time(plain, producer), time_alone(plan, kernels(KernelSpec::norm, op)))))
            return false;
        plain = fused;
        return true;
    }
    /// Fuses the batch norm that writes this convolution's input into it, if that is faster.
    void move_into_reader(int reader) {
        const ValueId x = std::get<Conv>(graph_.ops[reader]).x;
        const int before = writer_[x];
        const auto* op = before == none ? nullptr : std::get_if<BatchNorm>(&graph_.ops[before]);
        GemmAlgorithm& gemm = algorithm(reader).gemm;
        if (!op || algorithm(before).norm.forward_by != NormAlgorithm::sums || !norm_in_conv(*op, tensor(x).dtype) ||
            reader_count_[x] != 1 || !gemm.weight_gradient)
            return;
        PlanSpec forward = *gemm.forward, gradient = *gemm.weight_gradient;
        const float apart = sum(sum(time(forward, reader), time(gradient, reader)), normalise_[before]);
        forward.normalise = gradient.normalise = true;
        constexpr const char* instead = "the batch norm writes its output";
        const float fused = time_or_note(forward, reader, instead),
                    fused_gradient = time_or_note(gradient, reader, instead);
        if (fused == missing || fused_gradient == missing) return;
        const float statistics = timing_.kernels(kernels(KernelSpec::statistics, *op));
        if (!prefer(sum(sum(fused, fused_gradient), statistics), apart)) return;
        gemm.forward = forward;
        gemm.weight_gradient = gradient;
        gemm.norm = before;
        algorithm(before).norm.forward_by = NormAlgorithm::reader;
        result_.memory[before].writes_value = false;
    }
    /// Returns the max-pool just before this norm if the norm's kernels can compute it too.
    int pool_before(const BatchNorm& op) const {
        if (at_ == 0 || writer_[op.x] != at_ - 1) return none;
        const auto* pool = std::get_if<Pool>(&graph_.ops[at_ - 1]);
        return pool && side_by_side(*pool) ? at_ - 1 : none;
    }

    void backward(const BatchNorm& op) {
        if (!wanted(op.y)) return;
        NormAlgorithm& norm = algorithm(at_).norm;
        if (op.fixed) {
            norm.gradient_by = NormAlgorithm::fixed;
            return;
        }
        if (options_.synchronised) norm.gradient_by = NormAlgorithm::synchronised;
        if (options_.synchronised || program_.batch == 0) return;
        // cuDNN's plan overwrites gradients, and writes all of them; our kernels can also add.
        const bool whole = !frozen(op.scale) && !frozen(op.bias) && wanted(op.x) && !adds_to(op.x) &&
                           (op.residual == none || (wanted(op.residual) && !adds_to(op.residual)));
        const float plan = whole ? time_of_plan(PlanSpec::norm_gradient, op) : missing;
        if (gradient_sums_by_reader(op, plan)) {
            norm.gradient_by = NormAlgorithm::sums;
        } else if (plan_wins(plan, kernels(KernelSpec::norm_gradient, op))) {
            norm.gradient_by = NormAlgorithm::plan;
            norm.gradient = norm_plan(PlanSpec::norm_gradient, op);
        } else if (const int before = pool_before(op); before != none && reader_count_[op.x] == 1 && wanted(op.x) &&
                                                       wanted(std::get<Pool>(graph_.ops[before]).x)) {
            norm.pool_gradient = before;
            norm.pool_gradient_adds = program_.gradients.accumulate[before][std::get<Pool>(graph_.ops[before]).x];
            algorithm(before).pool.gradient_by_norm = true;
            result_.memory[before].writes_gradient = false;
            result_.memory[before].gradients_by = at_;
        }
    }
    /// Decides whether the reader's data gradient masks dy and writes dscale and dbias.
    bool gradient_sums_by_reader(const BatchNorm& op, float plan) {
        const int reader = last_reader_[op.y];
        if (!fuses() || !norm_in_conv(op, tensor(op.x).dtype) || reader_count_[op.y] != 1 || frozen(op.scale) ||
            frozen(op.bias) || !wanted(op.x) || !std::holds_alternative<Conv>(graph_.ops[reader]) ||
            !algorithm(reader).gemm.data_gradient || program_.gradients.accumulate[reader][op.y])
            return false;
        GemmAlgorithm& gemm = algorithm(reader).gemm;
        PlanSpec fused = *gemm.data_gradient;
        fused.statistics = true;
        const float t = time_or_note(fused, reader, "kernels/batchnorm_gradient computes the sums");
        if (t == missing) return false;
        const float rest = timing_.kernels(kernels(KernelSpec::gradient_of_sums, op));
        const KernelSpec ours = kernels(KernelSpec::norm_gradient, op);
        if (!prefer(sum(t, rest), sum(time(*gemm.data_gradient, reader), time_alone(plan, ours)))) return false;
        gemm.data_gradient = fused;
        gemm.norm = at_;
        return true;
    }

    template <class Other> void forward(const Other&) {}
    template <class Other> void backward(const Other&) {}

    /// Returns the bytes of OpArguments::saved.
    size_t saved(size_t op) const {
        const OpAlgorithm& w = result_.per_op[op];
        if (const auto* norm = std::get_if<BatchNorm>(&graph_.ops[op])) {
            const Tensor x = tensor(norm->x);
            const size_t vectors = 2 * size_t(x.shape.c);
            return vectors * sizeof(float) + (w.norm.forward_by == NormAlgorithm::plan     ? vectors * sizeof(float)
                                              : w.norm.forward_by == NormAlgorithm::reader ? vectors * size_of(x.dtype)
                                                                                           : 0);
        }
        if (const auto* conv = std::get_if<Conv>(&graph_.ops[op]))
            return w.gemm.forward && w.gemm.forward->statistics ? 2 * size_t(tensor(conv->y).shape.c) * sizeof(float)
                                                                : 0;
        const auto* pool = std::get_if<Pool>(&graph_.ops[op]);
        return pool && pool->kind == Pool::max ? tensor(pool->y).count() : 0;
    }

    const Graph& graph_;
    const ProgramShape& program_;
    const AlgorithmOptions options_;
    const Timing& timing_;
    const std::vector<int> reader_count_, writer_;  // per value: the number of reading ops; the writing op
    std::vector<int> last_reader_;                  // per value: the last op that reads it
    std::vector<float> normalise_;                  // per op: microseconds
    int at_ = 0;                                    // the op whose algorithm is being selected
    GpuAlgorithms result_;
};

}  // namespace

GpuAlgorithms select_algorithms(const ProgramShape& program, const AlgorithmOptions& options, const Timing& timing) {
    return with_branches(Selector(program, options, timing).select(), options.multiprocessors);
}

GpuAlgorithms select_unmeasured(const ProgramShape& program, AlgorithmOptions options) {
    if (options.norm_by == NormBy::measured) options.norm_by = NormBy::kernels;
    return select_algorithms(program, options,
                             {[](const PlanSpec&) { return 0.0f; }, [](const KernelSpec&) { return 0.0f; }});
}

}  // namespace convoy::cuda
