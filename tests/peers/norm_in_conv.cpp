// Would batch norm gain from being computed within the convolution? Runs one bottleneck of
// ResNet-50 forward, without its 3x3 convolution: x -> 1x1 -> statistics, and scale + ReLU -> 1x1
// -> statistics. "apart": oneDNN's GEMMs, and passes over their outputs. "inside": libxsmm's small
// GEMMs (BRGEMM kernels' generator), with statistics summed from 64 rows of output while they are
// in cache. Scale + ReLU are applied to 64 rows of input just before they are multiplied; the
// scaled rows are still written, because the weight gradient reads them. Prints milliseconds,
// medians of 15 runs that alternate. Not part of the test suite.
//   apt-get install libxsmm-dev; deps=$PWD/.deps/onednn
//   flags="-O3 -march=native -std=c++20 -fopenmp tests/peers/norm_in_conv.cpp -I$deps/include"
//   g++ $flags -o norm_in_conv -L$deps/lib -ldnnl -Wl,-rpath,$deps/lib -lxsmm -lxsmmnoblas -ldl
//   OMP_NUM_THREADS=2 ./norm_in_conv
#include <immintrin.h>
#include <libxsmm.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <vector>

namespace {

using bf16 = uint16_t;
constexpr int block = 64, lanes = 16;

template <class E> __m512 load(const E* p) {
    if constexpr (sizeof(E) == 4)
        return _mm512_loadu_ps(p);
    else
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
template <class E> void store(E* p, __m512 v) {
    if constexpr (sizeof(E) == 4)
        _mm512_storeu_ps(p, v);
    else
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(v));
}

/// Adds sum[c] += y, squares[c] += y^2 over rows of c columns. Takes `together` vectors of columns
/// at a time, so that sums stay in registers.
template <class E> void add_statistics(const E* y, int rows, int c, float* sum, float* squares) {
    constexpr int together = 8;
    for (int first = 0; first < c; first += together * lanes) {
        __m512 s[together] = {}, q[together] = {};
        for (int row = 0; row < rows; ++row)
            for (int v = 0; v < together; ++v) {
                const __m512 at = load(y + size_t(row) * c + first + v * lanes);
                s[v] += at;
                q[v] = _mm512_fmadd_ps(at, at, q[v]);
            }
        for (int v = 0; v < together; ++v) {
            store(sum + first + v * lanes, load(sum + first + v * lanes) + s[v]);
            store(squares + first + v * lanes, load(squares + first + v * lanes) + q[v]);
        }
    }
}

/// Computes z = max(0, y scale + shift).
template <class E> void scale_relu(const E* y, int rows, int c, const float* scale, const float* shift, E* z) {
    for (int row = 0; row < rows; ++row)
        for (int i = 0; i < c; i += lanes) {
            const size_t at = size_t(row) * c + i;
            const __m512 scaled = _mm512_fmadd_ps(load(y + at), load(scale + i), load(shift + i));
            store(z + at, _mm512_max_ps(_mm512_setzero_ps(), scaled));
        }
}

double seconds(const std::function<void()>& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

template <class E> std::vector<E> random_values(size_t n) {
    std::vector<E> all(n);
    uint32_t state = 1;
    for (E& e : all) {
        state = state * 1664525 + 1013904223;
        const float f = float(state >> 8) / float(1 << 24) - 0.5f;
        if constexpr (sizeof(E) == 4)
            e = f;
        else {
            uint32_t bits;
            std::memcpy(&bits, &f, 4);
            e = bf16(bits >> 16);
        }
    }
    return all;
}

/// Computes y [rows, out] = x [rows, in] weight [in, out] and the statistics of y; before that, if
/// `scaled`, x = relu(before scale + shift).
template <class E> struct Layer {
    int rows, in, out;
    bool scaled;
    std::vector<E> before, x, y, weight, packed;
    std::vector<float> scale, shift;
    int threads = omp_get_max_threads();
    std::vector<float> sums;  // sum and squares of each thread

    Layer(int rows_, int in_, int out_, bool scaled_)
        : rows(rows_),
          in(in_),
          out(out_),
          scaled(scaled_),
          before(random_values<E>(size_t(rows) * in)),
          x(before),
          y(size_t(rows) * out),
          weight(random_values<E>(size_t(in) * out)),
          packed(weight.size()),
          scale(in, 1.1f),
          shift(in, 0.1f),
          sums(size_t(threads) * 2 * out) {
        // libxsmm's bf16 kernels read pairs of rows together
        for (int i = 0; i < in; ++i)
            for (int o = 0; o < out; ++o) packed[(size_t(i / 2) * out + o) * 2 + i % 2] = weight[size_t(i) * out + o];
    }
    float* sum(int t) { return sums.data() + size_t(t) * 2 * out; }

    void scale_rows(int row) {
        const size_t at = size_t(row) * in;
        scale_relu(before.data() + at, block, in, scale.data(), shift.data(), x.data() + at);
    }
    void passes_before() {
        if (!scaled) return;
#pragma omp parallel for
        for (int r = 0; r < rows; r += block) scale_rows(r);
    }
    void passes_after() {
        std::fill(sums.begin(), sums.end(), 0.f);
#pragma omp parallel for
        for (int r = 0; r < rows; r += block)
            add_statistics(y.data() + size_t(r) * out, block, out, sum(omp_get_thread_num()),
                           sum(omp_get_thread_num()) + out);
    }
    void inside() {
        std::fill(sums.begin(), sums.end(), 0.f);
        const int paired = LIBXSMM_GEMM_FLAG_VNNI_A;
        const float one = 1, zero = 0;
        const auto f32 = libxsmm_smmdispatch(out, block, in, nullptr, nullptr, nullptr, &one, &zero, nullptr, nullptr);
        const auto low = libxsmm_bsmmdispatch(out, block, in, nullptr, nullptr, nullptr, &one, &zero, &paired, nullptr);
#pragma omp parallel
        {
            std::vector<float> wide(sizeof(E) == 2 ? size_t(block) * out : 0);
            float* const s = sum(omp_get_thread_num());
#pragma omp for
            for (int r = 0; r < rows; r += block) {
                E* const from = x.data() + size_t(r) * in;
                E* const to = y.data() + size_t(r) * out;
                if (scaled) scale_rows(r);
                if constexpr (sizeof(E) == 4) {
                    f32(weight.data(), from, to);
                } else {
                    low(reinterpret_cast<const libxsmm_bfloat16*>(packed.data()),
                        reinterpret_cast<const libxsmm_bfloat16*>(from), wide.data());
                    for (size_t i = 0; i < wide.size(); i += lanes) store(to + i, load(wide.data() + i));
                }
                add_statistics(to, block, out, s, s + out);
            }
        }
    }
    double total() {
        double all = 0;
        for (const float f : sums) all += f;
        return all;
    }
};

template <class E> void measure(int rows, int in, int out, bool scaled) {
    using dnnl::memory;
    Layer<E> layer(rows, in, out, scaled);
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    static dnnl::stream stream(engine);
    const auto type = sizeof(E) == 4 ? memory::data_type::f32 : memory::data_type::bf16;
    const auto matrix = [&](int a, int b) { return memory::desc({a, b}, type, memory::format_tag::ab); };
    const memory::desc any({in, out}, type, memory::format_tag::any);
    const dnnl::matmul::primitive_desc pd(engine, matrix(rows, in), any, matrix(rows, out));
    const dnnl::matmul product(pd);
    const memory mx(matrix(rows, in), engine, layer.x.data()), my(matrix(rows, out), engine, layer.y.data()),
        plain(matrix(in, out), engine, layer.weight.data()), mw(pd.weights_desc(), engine);
    memory from = plain, to = mw;
    dnnl::reorder(from, to).execute(stream, from, to);
    const auto multiply = [&] {
        product.execute(stream, {{DNNL_ARG_SRC, mx}, {DNNL_ARG_WEIGHTS, mw}, {DNNL_ARG_DST, my}});
        stream.wait();
    };
    std::vector<double> before, multiplied, after, inside;
    double total_apart = 0, total_inside = 0;
    for (int i = -2; i < 15; ++i) {
        const double b = seconds([&] { layer.passes_before(); }), m = seconds(multiply),
                     a = seconds([&] { layer.passes_after(); });
        total_apart = layer.total();
        const double n = seconds([&] { layer.inside(); });
        total_inside = layer.total();
        if (i < 0) continue;
        before.push_back(b), multiplied.push_back(m), after.push_back(a), inside.push_back(n);
    }
    const double apart = median(before) + median(multiplied) + median(after), flops = 2.0 * rows * in * out;
    std::printf(
        "%s %6d x %4d to %4d: apart %6.2f (before %.2f, product %.2f = %.0f GFLOP/s, after %.2f), "
        "inside %6.2f: %.2f of it; sums differ by %.1e\n",
        sizeof(E) == 4 ? "f32 " : "bf16", rows, in, out, 1e3 * apart, 1e3 * median(before), 1e3 * median(multiplied),
        flops / median(multiplied) / 1e9, 1e3 * median(after), 1e3 * median(inside), median(inside) / apart,
        std::abs(total_apart / total_inside - 1));
}

}  // namespace

int main() {
    libxsmm_init();
    // batch 32, ResNet-50 with the CIFAR stem: rows = 32 side^2
    for (const auto& [side, narrow] : {std::pair{32, 64}, {16, 128}, {8, 256}, {4, 512}}) {
        const int rows = 32 * side * side, wide = 4 * narrow;
        if (narrow >= 128) measure<float>(rows, wide, narrow, false), measure<bf16>(rows, wide, narrow, false);
        measure<float>(rows, narrow, wide, true);
        measure<bf16>(rows, narrow, wide, true);
    }
}
