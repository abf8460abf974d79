// Convolutions on plain NHWC activations, each with the algorithm chosen for it
// (conv_algorithms.h), and bias gradients.
#include "backend/cpu/conv_algorithms.h"
#include "backend/cpu/conv_calls.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

template <class E> CONVOY_WIDE void add_rows(const E* from, int64_t rows, int c, float* s) {
    for (int64_t r = 0; r < rows; ++r, from += c) {
#pragma omp simd
        for (int i = 0; i < c; ++i) s[i] += to_float(from[i]);
    }
}

}  // namespace

void CpuBackend::bias_gradient(const Tensor& dy, float* to, const LaunchId& id, Tape& tape) {
    const int c = dy.shape.c;
    int together = 1;  // rows that are summed as one row, so that its channels fill vectors
    while (together < 16 && together * c % 16 != 0) together *= 2;
    const int wide = together * c;
    const Buffer scratch =
        allocate(sizeof(double) * (2 * size_t(wide) + size_t(threads_) * ThreadScratch::doubles(wide)));
    with_type(dy.dtype, [&]<class E>(E) {
        tape.push_back({id, Resource::compute, [=, this, rows = int64_t(dy.shape.pixels()), from = dy.as<E>()] {
                            auto* sums = static_cast<double*>(scratch.get());
                            sum_rows(threads_, rows / together, wide, sums + 2 * wide, sums,
                                     [=](int64_t first, int64_t last, const ThreadScratch& t) {
                                         add_rows(from + first * wide, last - first, wide, t.s);
                                     });
                            const int rest = int(rows % together);
                            for (int i = 0; i < c; ++i) {
                                double sum = 0;
                                for (int k = 0; k < together; ++k) sum += sums[k * c + i];
                                for (int k = 0; k < rest; ++k) sum += to_float(from[(rows - rest + k) * c + i]);
                                to[i] = float(sum);
                            }
                        }});
    });
}

namespace {

const CpuAlgorithms::ConvAlgorithm& algorithm_of(const OpArguments& b) {
    return dynamic_cast<const CpuAlgorithms&>(b.algorithms).convs[b.op];
}

}  // namespace

void CpuBackend::append(const OpArguments& b, LaunchPhase direction, const std::string& name, const ConvCall& call,
                        ConvBy by, Tape& tape) {
    Calls calls(engine_, stream_, temporary_);
    cpu::append(calls, engine_, direction, call, by);
    calls.onto(tape, b.launch(direction, name));
}

void CpuBackend::forward(const Conv& op, const OpArguments& b, Tape& tape) {
    const ConvCall call{.op = op,
                        .x = b.values[op.x],
                        .y = b.values[op.y],
                        .weight = b.params[op.weight],
                        .bias = op.bias == none ? Tensor{} : b.params[op.bias],
                        .training = b.training,
                        .threads = threads_};
    append(b, LaunchPhase::forward, "conv forward", call, algorithm_of(b).forward, tape);
}

void CpuBackend::backward(const Conv& op, const OpArguments& b, Tape& tape) {
    const Tensor &dx = b.value_gradients[op.x], &dy = b.value_gradients[op.y];
    ConvCall call{.op = op, .x = b.values[op.x], .y = dy, .weight = b.param_gradients[op.weight], .bias = {}};
    call.threads = threads_;
    if (call.weight.data)  // null: frozen
        append(b, LaunchPhase::weight_gradient, "conv weight gradient", call, algorithm_of(b).weight_gradient, tape);
    // A separate launch. If there is one input channel, oneDNN takes twice as long for a call that
    // computes both gradients.
    if (op.bias != none && b.param_gradients[op.bias].data)
        bias_gradient(dy, b.param_gradients[op.bias].as<float>(),
                      b.launch(LaunchPhase::bias_gradient, "conv bias gradient"), tape);
    call.x = dx;
    call.weight = b.params[op.weight];
    call.add = b.accumulate[op.x];
    if (dx.data) append(b, LaunchPhase::data_gradient, "conv data gradient", call, algorithm_of(b).data_gradient, tape);
}

}  // namespace convoy::cpu
