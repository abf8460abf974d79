#include "tests/kernels/support.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

uint16_t half_bits(float v, DType type) {
    uint16_t bits;
    if (type == DType::f16) {
        const __half h = __float2half_rn(v);
        std::memcpy(&bits, &h, sizeof bits);
    } else {
        const __nv_bfloat16 h = __float2bfloat16_rn(v);
        std::memcpy(&bits, &h, sizeof bits);
    }
    return bits;
}

float from_half_bits(uint16_t bits, DType type) {
    if (type == DType::f16) {
        __half h;
        std::memcpy(static_cast<void*>(&h), &bits, sizeof bits);
        return __half2float(h);
    }
    __nv_bfloat16 h;
    std::memcpy(static_cast<void*>(&h), &bits, sizeof bits);
    return __bfloat162float(h);
}

}  // namespace

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all = {{DType::f32, 1, 0}, {DType::f32, 8, 0}, {DType::f32, 8, 1},
                                            {DType::f16, 1, 0}, {DType::f16, 8, 0}, {DType::bf16, 8, 0},
                                            {DType::bf16, 8, 1}};
    return all;
}

std::string name_of(const Layout& l) {
    return std::string(name_of(l.type)) + (l.multiple > 1 ? " padded" : " as it is") + (l.shift ? ", not aligned" : "");
}

double rounding(DType type) { return type == DType::f16 ? 0x1p-11 : type == DType::bf16 ? 0x1p-8 : 0x1p-24; }

Floats rounded(Floats values, DType type) {
    if (type != DType::f32)
        for (float& v : values) v = from_half_bits(half_bits(v, type), type);
    return values;
}

KernelTensor::KernelTensor(Shape shape, Layout layout) : channels_(shape.c) {
    shape.c = layout.stored(shape.c);
    tensor_ = {nullptr, shape, layout.type, shape.c - channels_};
    const size_t ahead = size_t(layout.shift) * size_of(layout.type);
    bytes_.assign(ahead + tensor_.bytes(), 0xff);  // all ones are a NaN in every type
    tensor_.data = bytes_.data() + ahead;
}

void KernelTensor::put(const Floats& values) {
    require(values.size() == tensor_.shape.pixels() * size_t(channels_), "as many values as elements");
    size_t from = 0;
    for (size_t e = 0; e < tensor_.count(); ++e) {
        const float v = int(e % size_t(tensor_.shape.c)) < channels_ ? values[from++] : 0;
        char* at = static_cast<char*>(tensor_.data) + e * size_of(tensor_.dtype);
        if (tensor_.dtype == DType::f32) {
            std::memcpy(at, &v, sizeof v);
        } else {
            const uint16_t bits = half_bits(v, tensor_.dtype);
            std::memcpy(at, &bits, sizeof bits);
        }
    }
}

float KernelTensor::element(size_t e) const {
    const char* at = static_cast<const char*>(tensor_.data) + e * size_of(tensor_.dtype);
    float v;
    uint16_t bits;
    if (tensor_.dtype == DType::f32) return std::memcpy(&v, at, sizeof v), v;
    return std::memcpy(&bits, at, sizeof bits), from_half_bits(bits, tensor_.dtype);
}

Floats KernelTensor::get() const {
    Floats values;
    for (size_t e = 0; e < tensor_.count(); ++e)
        if (int(e % size_t(tensor_.shape.c)) < channels_) values.push_back(element(e));
    return values;
}

bool KernelTensor::padding_is_zero() const {
    for (size_t e = 0; e < tensor_.count(); ++e)
        if (int(e % size_t(tensor_.shape.c)) >= channels_ && element(e) != 0) return false;
    return true;
}

std::vector<Floats> in_every_order(const std::function<std::vector<Floats>()>& body) {
    std::vector<Floats> first;
    for (const Order order : {Order::forward, Order::reversed, Order::shuffled}) {
        set_thread_order(order);
        std::vector<Floats> now = body();
        if (order == Order::forward)
            first = std::move(now);
        else
            EXPECT_TRUE(now == first) << "the result depends on the order of threads";
    }
    set_thread_order(Order::forward);
    return first;
}

double length(const Floats& v) {
    double sum = 0;
    for (float e : v) sum += double(e) * double(e);
    return std::sqrt(sum);
}

double distance(const Floats& a, const Floats& b) {
    if (a.size() != b.size()) return INFINITY;
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
    return std::isnan(sum) ? INFINITY : std::sqrt(sum);
}

Floats values_of(const std::vector<kernels::Segment>& segments, size_t count, uint64_t seed) {
    const Floats values = normals(count, seed);
    Floats v(count);
    for (const kernels::Segment& s : segments)
        for (int64_t i = s.begin; i < s.begin + s.count; ++i) v[i] = values[i];
    return v;
}

}  // namespace convoy::test
