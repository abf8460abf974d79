// Scalar loops, one per op, written for readability.
#include "tests/ops/op_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/philox.h"

namespace convoy::test {
namespace {

/// Calls body(offset, n, i, j, c) for every element.
template <class Body> void each(const Shape& s, Body body) {
    size_t offset = 0;
    for (int n = 0; n < s.n; ++n)
        for (int i = 0; i < s.h; ++i)
            for (int j = 0; j < s.w; ++j)
                for (int c = 0; c < s.c; ++c) body(offset++, n, i, j, c);
}

double gelu(double z) { return 0.5 * z * std::erfc(-z / std::sqrt(2.0)); }

bool inside(const Shape& s, int i, int j) { return i >= 0 && i < s.h && j >= 0 && j < s.w; }

}  // namespace

Reference::Reference(const Graph& graph, int batch, OpSetting setting)
    : graph_(&graph), batch_(batch), setting_(setting) {
    for (const Value& v : graph.values) values.emplace_back(v.batched(batch).count());
    for (const Param& p : graph.params) params.emplace_back(p.shape.count());
}

double Reference::at(ValueId id, int n, int i, int j, int c) const {
    const Shape s = shape(id);
    return values[id][((size_t(n) * s.h + i) * s.w + j) * s.c + c];
}

void Reference::run() {
    for (const Op& op : graph_->ops) std::visit([&](const auto& o) { run(o); }, op);
}

void Reference::run(const Conv& op) {
    const Shape in = shape(op.x);
    const int k = op.kernel;
    each(shape(op.y), [&](size_t e, int n, int i, int j, int o) {
        double sum = op.bias == none ? 0 : params[op.bias][o];
        for (int a = 0; a < k; ++a)
            for (int b = 0; b < k; ++b) {
                const int row = i * op.stride + a - op.pad, column = j * op.stride + b - op.pad;
                if (!inside(in, row, column)) continue;
                for (int c = 0; c < in.c; ++c)
                    sum += at(op.x, n, row, column, c) * params[op.weight][((size_t(o) * k + a) * k + b) * in.c + c];
            }
        values[op.y][e] = sum;
    });
}

void Reference::run(const BatchNorm& op) {
    const Shape s = shape(op.x);
    const double rows = double(s.pixels());
    Doubles mean = params[op.mean], var = params[op.var];
    if (setting_.training && !op.fixed) {
        std::fill(mean.begin(), mean.end(), 0);
        std::fill(var.begin(), var.end(), 0);
        each(s, [&](size_t e, int, int, int, int c) { mean[c] += values[op.x][e] / rows; });
        each(s, [&](size_t e, int, int, int, int c) { var[c] += std::pow(values[op.x][e] - mean[c], 2) / rows; });
        for (int c = 0; c < s.c; ++c) {
            const double unbiased = rows > 1 ? var[c] * rows / (rows - 1) : var[c];
            params[op.mean][c] += op.momentum * (mean[c] - params[op.mean][c]);
            params[op.var][c] += op.momentum * (unbiased - params[op.var][c]);
        }
    }
    each(s, [&](size_t e, int n, int i, int j, int c) {
        double y =
            (values[op.x][e] - mean[c]) / std::sqrt(var[c] + op.epsilon) * params[op.scale][c] + params[op.bias][c];
        if (op.residual != none && c < shape(op.residual).c) y += at(op.residual, n, i, j, c);
        values[op.y][e] = op.act == Activation::relu ? std::max(y, 0.0) : op.act == Activation::gelu ? gelu(y) : y;
    });
}

void Reference::run(const Relu& op) {
    each(shape(op.x), [&](size_t e, int, int, int, int) { values[op.y][e] = std::max(values[op.x][e], 0.0); });
}

void Reference::run(const Gelu& op) {
    each(shape(op.x), [&](size_t e, int, int, int, int) { values[op.y][e] = gelu(values[op.x][e]); });
}

void Reference::run(const Scale& op) {
    each(shape(op.x), [&](size_t e, int, int, int, int) { values[op.y][e] = double(op.factor) * values[op.x][e]; });
}

void Reference::run(const Add& op) {
    each(shape(op.y), [&](size_t e, int, int, int, int) { values[op.y][e] = values[op.a][e] + values[op.b][e]; });
}

void Reference::run(const Pool& op) {
    const Shape in = shape(op.x);
    each(shape(op.y), [&](size_t e, int n, int i, int j, int c) {
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        int count = 0;
        for (int a = 0; a < op.kernel; ++a)
            for (int b = 0; b < op.kernel; ++b) {
                const int row = i * op.stride + a - op.pad, column = j * op.stride + b - op.pad;
                if (!inside(in, row, column)) continue;
                const double x = at(op.x, n, row, column, c);
                most = std::max(most, x);
                sum += x;
                ++count;
            }
        values[op.y][e] = op.kind == Pool::max ? most : sum / count;
    });
}

void Reference::run(const PadShortcut& op) {
    const Shape in = shape(op.x);
    each(shape(op.y), [&](size_t e, int n, int i, int j, int c) {
        double sum = 0;
        for (int a = 0; a < op.stride && c < in.c; ++a)
            for (int b = 0; b < op.stride; ++b) sum += at(op.x, n, i * op.stride + a, j * op.stride + b, c);
        values[op.y][e] = sum / (op.stride * op.stride);
    });
}

void Reference::run(const Linear& op) {
    const size_t in = shape(op.x).count() / size_t(batch_);
    each(shape(op.y), [&](size_t e, int n, int, int, int o) {
        double sum = op.bias == none ? 0 : params[op.bias][o];
        for (size_t k = 0; k < in; ++k) sum += values[op.x][size_t(n) * in + k] * params[op.weight][size_t(o) * in + k];
        values[op.y][e] = sum;
    });
}

// The random word of an element is part of a run's definition: all backends must draw the same.
void Reference::run(const Dropout& op) {
    const Shape s = shape(op.x);
    each(s, [&](size_t e, int n, int, int, int c) {
        const size_t draw = op.whole_channels ? size_t(c) : e % (s.count() / size_t(s.n));
        const Random4 random = philox(setting_.seed, uint32_t(draw / 4), uint32_t(setting_.first + n),
                                      uint32_t(setting_.step), purpose_dropout + uint32_t(op.stream));
        const bool kept = !setting_.training || uniform01(random.word[draw % 4]) >= op.p;
        values[op.y][e] = kept ? values[op.x][e] / (setting_.training ? 1 - double(op.p) : 1) : 0;
    });
}

void Reference::run(const SoftmaxXent& op) {
    const int k = shape(op.x).c;
    for (int n = 0; n < batch_; ++n) {
        const double* row = &values[op.x][size_t(n) * size_t(k)];
        const double top = *std::max_element(row, row + k);
        double sum = 0;
        for (int j = 0; j < k; ++j) sum += std::exp(row[j] - top);
        for (int j = 0; j < k; ++j) {
            const double target =
                double(op.label_smoothing) / k + (j == labels[n] ? 1 - double(op.label_smoothing) : 0);
            loss_sum -= target * (row[j] - top - std::log(sum));
        }
        std::vector<int> best(static_cast<size_t>(k));  // classes in the order of the model's preference
        std::iota(best.begin(), best.end(), 0);
        std::stable_sort(best.begin(), best.end(), [row](int a, int b) { return row[a] > row[b]; });
        correct += best.front() == labels[n];
        top5 += std::find(best.begin(), best.begin() + std::min(5, k), labels[n]) != best.begin() + std::min(5, k);
    }
}

}  // namespace convoy::test
