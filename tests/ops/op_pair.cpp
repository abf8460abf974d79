// A case with its data on a backend and in the reference, and the cases by device.
#include <algorithm>
#include <ostream>
#include <set>

#include "backend/cpu/conv_algorithms.h"
#include "base/philox.h"
#include "tests/ops/op_cases.h"

namespace convoy::test {

std::vector<ValueId> OpCase::inputs() const {
    std::vector<ValueId> ids = inputs_of(op());
    if (ids.size() > 1 && ids[0] == ids[1]) ids.pop_back();
    return ids;
}

std::vector<ParamId> OpCase::trained() const {
    std::vector<ParamId> ids = params_of(op());
    std::erase_if(ids, [&](ParamId id) { return !graph.params[id].trained || graph.params[id].frozen; });
    return ids;
}

Floats normals(size_t n, uint64_t seed, float mean, float deviation) {
    Floats values(n + 3);
    for (size_t i = 0; i < n; i += 4) {
        const Random4 r = philox(seed, uint32_t(i / 4), 0, 0, 0);
        normal2(r.word[0], r.word[1], &values[i]);
        if (i + 2 < values.size() - 1) normal2(r.word[2], r.word[3], &values[i + 2]);
    }
    values.resize(n);
    for (float& v : values) v = mean + deviation * v;
    return values;
}

Doubles widened(const Floats& v) { return {v.begin(), v.end()}; }

/// Returns values that bf16 and f16 represent exactly. No two neighbours are equal, because a
/// maximum of equal values has no derivative.
static Floats distinct(const Tensor& shape) {
    Floats v(shape.count());
    const size_t c = size_t(shape.shape.c);
    for (size_t i = 0; i < v.size(); ++i) v[i] = (float((i / c * 37 + i % c * 11) % 251) - 125) / 64;
    return v;
}

/// Returns true if the device multiplies weights that are rounded to the type of the values.
static bool rounds_weights(const Backend& device, const OpCase& c) {
    return device.facts().channel_multiple > 1 && c.type() != DType::f32;
}

Pair::Pair(Backend& device, const OpCase& c, OpSetting setting)
    : backend(device, rounds_weights(device, c) ? c.padded : c.graph, c.batch, setting),
      reference(c.graph, c.batch, setting) {
    for (const ValueId id : c.inputs()) {
        const auto* pool = std::get_if<Pool>(&c.op());
        const Floats v = pool && pool->kind == Pool::max && c.type() != DType::f32
                             ? distinct({nullptr, c.graph.values[id].batched(c.batch)})
                             : rounded(c.type(), normals(reference.values[id].size(), 100 + uint64_t(id),
                                                         id == c.inputs()[0] ? c.offset : 0));
        backend.set_value(id, v);
        reference.values[id] = widened(v);
    }
    for (const ParamId id : params_of(c.op())) {
        const Param& p = c.graph.params[id];
        Floats v = normals(p.shape.count(), 200 + uint64_t(id));
        for (float& e : v) {
            if (p.init.kind != Init::constant)
                e *= p.init.a;
            else if (p.trained)
                e = p.init.a + 0.2f * e;  // scale and bias of a batch norm
            else if (p.init.a == 1)
                e = 0.5f + e * e;  // running variance
            else
                e = p.init.a + 0.1f * e;  // running mean
        }
        if (rounds_weights(device, c) && p.shape.n > 1) v = rounded(c.type(), v);  // vectors stay f32
        backend.set_param(id, v);
        reference.params[id] = widened(v);
    }
    for (int n = 0; n < c.batch && c.graph.classes > 0; ++n) reference.labels.push_back((7 * n + 3) % c.graph.classes);
    if (!reference.labels.empty()) backend.set_labels(reference.labels);
}

/// Returns the algorithms with which a CPU can run the convolution in some direction; none for
/// another op.
static std::set<ConvBy> algorithms_of(const OpCase& c) {
    const GradientFlow gradients = gradient_flow(c.graph);
    std::set<ConvBy> algorithms;
    for (const cpu::ConvUse& use : cpu::uses_of({c.graph, c.batch, true, gradients}, 2))
        for (const ConvBy by : cpu::candidates(use.spec, cpu::capabilities())) algorithms.insert(by);
    return algorithms;
}

std::vector<OnDevice> all_cases() {
    std::vector<OnDevice> all;
    for (const std::string& device : test_devices())
        for (size_t i = 0; i < op_cases().size(); ++i) {
            if (const DType type = op_cases()[i].type(); device == "cpu" && type != DType::f32)
                if (type == DType::f16 || !has_bf16()) continue;
            const std::set<ConvBy> algorithms = device == "cpu" ? algorithms_of(op_cases()[i]) : std::set<ConvBy>{};
            for (const ConvBy by : algorithms) all.push_back({device, i, by});
            if (algorithms.empty()) all.push_back({device, i});
        }
    return all;
}

std::vector<OnDevice> all_cases_but_losses() {
    std::vector<OnDevice> all = all_cases();
    std::erase_if(all, [](const OnDevice& o) { return output_of(o.op_case().op()) == none; });
    return all;
}

Backend& OnDevice::backend() const {
    const DType type = op_case().type();
    const bool low = device != "cpu" && type != DType::f32;
    return shared_backend(device, by, !low ? Precision::f32 : type == DType::f16 ? Precision::f16 : Precision::bf16);
}

std::string name_of(const OnDevice& o) {
    std::string algorithm = o.by == ConvBy::measured ? "" : std::string("_by_") + cpu::name_of(o.by);
    std::replace(algorithm.begin(), algorithm.end(), '-', '_');
    return o.device + "_" + o.op_case().name + algorithm;
}
void PrintTo(const OnDevice& o, std::ostream* stream) { *stream << name_of(o); }

}  // namespace convoy::test
