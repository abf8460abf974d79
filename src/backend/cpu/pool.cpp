// Max and average pooling. Max pooling stores the positions of maxima in `saved`.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {
namespace {

dnnl::memory::dims both(int n) { return {n, n}; }  // vertical and horizontal

dnnl::algorithm algorithm_of(const Pool& op) {
    return op.kind == Pool::max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_exclude_padding;
}

dnnl::pooling_forward::primitive_desc forward_desc(const dnnl::engine& engine, const Pool& op, const Tensor& x,
                                                   const Tensor& y, bool training) {
    const auto prop = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    return {engine,       prop,         algorithm_of(op),   nhwc(x), nhwc(y), both(op.stride), both(op.kernel), both(0),
            both(op.pad), both(op.pad), Calls::attributes()};
}

}  // namespace

size_t CpuBackend::pool_workspace(const Pool& op, const Graph& graph, int batch) const {
    const auto tensor = [&](ValueId id) {
        return Tensor{nullptr, graph.values[id].batched(batch), graph.values[id].dtype};
    };
    if (op.kind != Pool::max || batch == 0) return 0;
    return forward_desc(engine_, op, tensor(op.x), tensor(op.y), true).workspace_desc().get_size();
}

void CpuBackend::forward(const Pool& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y];
    const auto pd = forward_desc(engine_, op, x, y, b.training);
    Calls calls(engine_, stream_, temporary_);
    std::vector<Calls::Operand> operands = {calls.fixed(DNNL_ARG_SRC, nhwc(x), x.data),
                                            calls.fixed(DNNL_ARG_DST, nhwc(y), y.data)};
    if (b.training && op.kind == Pool::max)
        operands.push_back(calls.fixed(DNNL_ARG_WORKSPACE, pd.workspace_desc(), b.own_saved()));
    calls.add(dnnl::pooling_forward(pd), operands, pd.scratchpad_desc());
    calls.onto(tape, b.launch(LaunchPhase::forward, "pool forward"));
}

void CpuBackend::backward(const Pool& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &dy = b.value_gradients[op.y], &dx = b.value_gradients[op.x];
    if (!dx.data) return;
    const auto hint = forward_desc(engine_, op, x, y, true);
    const dnnl::pooling_backward::primitive_desc pd(engine_, algorithm_of(op), nhwc(dx), nhwc(dy), both(op.stride),
                                                    both(op.kernel), both(0), both(op.pad), both(op.pad), hint,
                                                    Calls::attributes());
    Calls calls(engine_, stream_, temporary_);
    const auto target = calls.target(DNNL_ARG_DIFF_SRC, dx, nhwc(dx), b.accumulate[op.x]);
    std::vector<Calls::Operand> operands = {calls.fixed(DNNL_ARG_DIFF_DST, nhwc(dy), dy.data), target};
    if (op.kind == Pool::max) operands.push_back(calls.fixed(DNNL_ARG_WORKSPACE, hint.workspace_desc(), b.own_saved()));
    calls.add(dnnl::pooling_backward(pd), operands, pd.scratchpad_desc());
    calls.deliver(target, dx, b.accumulate[op.x]);
    calls.onto(tape, b.launch(LaunchPhase::gradient, "pool gradient"));
}

}  // namespace convoy::cpu
