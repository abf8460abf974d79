#include "bench/ceilings.h"

#include <vector>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/quantile.h"

namespace convoy {
namespace {

/// Returns the median seconds of what `append` puts on a tape. Several copies run together: 20 on a
/// GPU, to hide the cost of launching.
double seconds_of(Backend& backend, const std::function<void(Tape&)>& append) {
    constexpr int rounds = 5;
    const int together = backend.facts().synchronous ? 2 : 20;
    Tape tape;
    for (int i = 0; i < together; ++i) append(tape);
    const auto run = backend.finish(std::move(tape));
    run();  // warm-up
    backend.synchronize();
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) {
        const auto start = Clock::now();
        run();
        backend.synchronize();
        seconds.push_back(seconds_since(start) / together);
    }
    return median(seconds);
}

double copied_bytes(Backend& backend) {
    const Shape shape{64, 1024, 1024, 1};
    const Tensor bytes{nullptr, shape, DType::f32};
    const Buffer from = backend.allocate(bytes.bytes()), to = backend.allocate(bytes.bytes());
    return 2 * double(bytes.bytes()) / seconds_of(backend, [&](Tape& tape) {
               backend.add_scaled({from.get(), shape, DType::f32}, 1, {to.get(), shape, DType::f32}, false, tape);
           });
}

/// Fills a tensor with 65,536 random numbers, repeated, because a GPU is faster at zeros.
void fill(Backend& backend, const Tensor& t) {
    std::vector<float> drawn(1 << 16);
    for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = uniform01(philox(1, uint32_t(i), 0, 0, 0).word[0]) - 0.5f;
    std::vector<bf16> low(drawn.size());  // also used for f16, in which the same bits are finite numbers
    for (size_t i = 0; i < drawn.size(); ++i) assign(low[i], drawn[i]);
    const size_t element = size_of(t.dtype), block = drawn.size() * element;
    for (size_t at = 0; at < t.bytes(); at += block)
        backend.upload(static_cast<char*>(t.data) + at,
                       element == sizeof(float) ? static_cast<const void*>(drawn.data()) : low.data(),
                       std::min(block, t.bytes() - at));
}

/// Returns a graph of one 1x1 convolution, which is a GEMM.
Graph gemm_graph(DType type, const Shape& weight) {
    constexpr int side = 16;
    Graph graph;
    graph.input = 0;
    graph.values = {{"x", side, side, weight.c, type}, {"y", side, side, weight.c, type}};
    graph.params = {{"weight", weight, {Init::constant, 0}, true, true}};
    graph.ops = {Conv{0, 1, 0, none, 1, 1, 0}};
    return graph;
}

double multiplied_flops(Backend& backend, const Graph& graph, const Tensor& weight, int images) {
    const int channels = weight.shape.c;
    const DType type = graph.values[0].dtype;
    const Shape pixels = graph.values[0].batched(images);
    const size_t bytes = pixels.count() * size_of(type);
    const Buffer x = backend.allocate(bytes), y = backend.allocate(bytes);
    const std::vector<Tensor> values = {{x.get(), pixels, type}, {y.get(), pixels, type}}, params = {weight};
    fill(backend, values[0]);
    const std::vector<Tensor> none_of_values(2), none_of_params(1);
    const GradientFlow gradients = gradient_flow(graph);
    const std::shared_ptr<const Algorithms> algorithms = backend.select({graph, images, false, gradients});
    const std::vector<void*> saved(1);
    const OpArguments arguments{.op = 0,
                                .name = "ceiling",
                                .graph = graph,
                                .algorithms = *algorithms,
                                .values = values,
                                .value_gradients = none_of_values,
                                .params = params,
                                .param_gradients = none_of_params,
                                .accumulate = gradients.accumulate[0],
                                .saved = saved,
                                .labels = {},
                                .stats = nullptr,
                                .counters = nullptr,
                                .global_batch = images,
                                .first = 0,
                                .seed = 0,
                                .training = true};
    return 2.0 * double(pixels.pixels()) * channels * channels /
           seconds_of(backend, [&](Tape& tape) { backend.forward(graph.ops[0], arguments, tape); });
}

}  // namespace

Ceilings measure_ceilings(Backend& backend, DType values, bool f32_too) {
    Ceilings c;
    const Shape shape{1024, 1, 1, 1024};
    const auto flops_in = [&](DType type, const Tensor& weight) {
        const Graph graph = gemm_graph(type, shape);
        if (backend.facts().synchronous) backend.tune({graph, 1, false, gradient_flow(graph)});
        const double flops = multiplied_flops(backend, graph, weight, 16);
        return flops > 1e13 ? multiplied_flops(backend, graph, weight, 512) : flops;  // a larger batch fills a GPU
    };
    try {
        c.bytes = copied_bytes(backend);
        const Buffer memory = backend.allocate(shape.count() * sizeof(float));
        const Tensor weight{memory.get(), shape, DType::f32};
        fill(backend, weight);
        c.flops = flops_in(values, weight);
        if (f32_too) c.f32_flops = flops_in(DType::f32, weight);
    } catch (const Error& error) {
        if (error.code != Exit::out_of_memory) throw;
    }
    return c;
}

}  // namespace convoy
