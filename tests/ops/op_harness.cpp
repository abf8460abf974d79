// Implements the harness that runs single ops.
#include "tests/ops/op_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "backend/cpu/rows.h"
#include "backend/cuda_queries.h"
#include "tests/support/test_comm.h"

namespace convoy::test {

std::vector<std::string> test_devices() {
    std::vector<std::string> devices = {"cpu"};
    if (cuda_unavailable().empty()) devices.push_back("cuda");
    return devices;
}

bool has_bf16() { return cpu::has_avx512(); }

std::unique_ptr<Backend> make_test_backend(const std::string& device, ConvBy by) {
    BackendOptions options;
    options.threads = 2;
    options.conv_by = by;
    return make_backend(device, options, test_comm());
}

namespace {

/// Ends before main() does, because backends use MPI.
class SharedBackends : public testing::Environment {
public:
    Backend& of(const std::string& device, ConvBy by, Precision precision) {
        std::unique_ptr<Backend>& backend = backends_[{device, by, precision}];
        if (!backend && precision == Precision::f32) backend = make_test_backend(device, by);
        if (!backend) {
            BackendOptions options;
            options.precision = precision;
            options.norm_by = NormBy::kernels;
            options.tune_seconds = 0;
            backend = make_backend(device, options, test_comm());
        }
        return *backend;
    }
    void TearDown() override { backends_.clear(); }

private:
    std::map<std::tuple<std::string, ConvBy, Precision>, std::unique_ptr<Backend>> backends_;
};
SharedBackends* const shared_backends = [] {
    auto* all = new SharedBackends;
    testing::AddGlobalTestEnvironment(all);  // takes ownership
    return all;
}();

}  // namespace

Backend& shared_backend(const std::string& device, ConvBy by, Precision precision) {
    return shared_backends->of(device, by, precision);
}

Floats rounded(DType type, Floats values) {
    if (type == DType::f16)
        for (float& v : values) v = float(_Float16(v));
    if (type == DType::bf16)
        for (float& v : values) {
            bf16 low;
            assign(low, v);
            v = to_float(low);
        }
    return values;
}

namespace {

using convoy::assign, convoy::to_float;
void assign(_Float16& to, float v) { to = _Float16(v); }
float to_float(_Float16 v) { return float(v); }

template <class T> void put_as(Backend& backend, const Tensor& t, const Floats& v) {
    const size_t real = size_t(t.channels()), stored = size_t(t.shape.c);
    std::vector<T> elements(t.count());
    for (size_t i = 0; i < elements.size(); ++i)
        assign(elements[i], i % stored < real ? v[i / stored * real + i % stored] : 0.0f);
    backend.upload(t.data, elements.data(), t.bytes());
}
template <class T> Floats get_as(Backend& backend, const Tensor& t) {
    const std::vector<T> elements = download<T>(backend, t.data, t.count());
    Floats v;
    for (size_t i = 0; i < elements.size(); ++i)
        if (int(i % size_t(t.shape.c)) < t.channels()) v.push_back(to_float(elements[i]));
    return v;
}

}  // namespace

void put(Backend& backend, const Tensor& t, const Floats& v) {
    require(v.size() == t.shape.pixels() * size_t(t.channels()), "a test sets as many elements as a tensor has");
    if (t.dtype == DType::f32) return put_as<float>(backend, t, v);
    if (t.dtype == DType::bf16) return put_as<bf16>(backend, t, v);
    put_as<_Float16>(backend, t, v);
}

Floats get(Backend& backend, const Tensor& t) {
    if (t.dtype == DType::f32) return get_as<float>(backend, t);
    if (t.dtype == DType::bf16) return get_as<bf16>(backend, t);
    return get_as<_Float16>(backend, t);
}

void run_tape(Backend& backend, Tape tape) {
    backend.finish(std::move(tape))();
    backend.synchronize();
}

OpHarness::OpHarness(Backend& backend, const Graph& graph, int batch, OpSetting setting)
    : backend_(backend), graph_(graph), setting_(setting), batch_(batch), gradients_(gradient_flow(graph)) {
    gradients_.wanted.assign(graph.values.size(), true);  // including the input's gradient
    if (setting_.global_batch == 0) setting_.global_batch = batch;
    for (const Value& v : graph.values) {
        values_.push_back(allocate(v.batched(batch), v.dtype, v.padding));
        value_gradients_.push_back(allocate(v.batched(batch), v.dtype, v.padding));
    }
    for (const Param& p : graph.params) {
        params_.push_back(allocate(p.shape));
        param_gradients_.push_back(p.trained && !p.frozen ? allocate(p.shape) : Tensor{nullptr, p.shape, DType::f32});
    }
    buffers_.push_back(backend.allocate(sizeof(int32_t) * size_t(batch)));
    labels_ = {buffers_.back().get(), {batch, 1, 1, 1}, DType::i32};
    stats_ = backend.allocate(stats_elements * sizeof(float));
    Counters counters;
    counters.step = setting_.step;
    counters_ = upload<Counters>(backend, {counters});
}

Tensor OpHarness::allocate(Shape shape, DType type, int padding) {
    buffers_.push_back(backend_.allocate(shape.count() * size_of(type)));
    put(backend_, {buffers_.back().get(), shape, type}, Floats(shape.count(), std::numeric_limits<float>::quiet_NaN()));
    return {buffers_.back().get(), shape, type, padding};
}

void OpHarness::set_labels(const std::vector<int32_t>& labels) {
    backend_.upload(labels_.data, labels.data(), labels_.bytes());
}

void OpHarness::set_mixed(const std::vector<int32_t>& partners, const Floats& shares) {
    buffers_.push_back(upload(backend_, partners));
    mixed_.partners = static_cast<int32_t*>(buffers_.back().get());
    buffers_.push_back(upload(backend_, shares));
    mixed_.shares = static_cast<float*>(buffers_.back().get());
}

BatchStats OpHarness::stats() const { return download<BatchStats>(backend_, stats_.get(), 1)[0]; }

void OpHarness::select() {
    if (algorithms_) return;
    algorithms_ = backend_.select({graph_, batch_, setting_.training, gradients_});
    for (const OpMemory& memory : algorithms_->memory) {
        buffers_.push_back(backend_.allocate(memory.saved));
        saved_.push_back(buffers_.back().get());
    }
}

OpArguments OpHarness::arguments(size_t op) const {
    return {.op = int(op),
            .name = "test",
            .graph = graph_,
            .algorithms = *algorithms_,
            .values = values_,
            .value_gradients = value_gradients_,
            .params = params_,
            .param_gradients = param_gradients_,
            .accumulate = gradients_.accumulate[op],
            .saved = saved_,
            .labels = labels_,
            .mixed = mixed_,
            .stats = static_cast<BatchStats*>(stats_.get()),
            .counters = static_cast<const Counters*>(counters_.get()),
            .global_batch = setting_.global_batch,
            .first = setting_.first,
            .seed = setting_.seed,
            .training = setting_.training};
}

void OpHarness::forward() {
    select();
    Tape tape;
    for (size_t i = 0; i < graph_.ops.size(); ++i) backend_.forward(graph_.ops[i], arguments(i), tape);
    run_tape(backend_, std::move(tape));
}

void OpHarness::backward() {
    select();
    Tape tape;
    for (size_t i = graph_.ops.size(); i-- > 0;) backend_.backward(graph_.ops[i], arguments(i), tape);
    backend_.finish_gradients(tape);
    run_tape(backend_, std::move(tape));
}

}  // namespace convoy::test
