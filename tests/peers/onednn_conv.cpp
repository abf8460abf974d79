// Compares oneDNN versions: GFLOP/s (median of 9) of f32 or bf16 convolutions on plain NHWC
// activations, in the three directions of training. Compiles against 2.x and 3.x. Not part of the
// test suite.
//   flags="-O2 -std=c++17 -fopenmp tests/peers/onednn_conv.cpp"; deps=$PWD/.deps/onednn
//   g++ $flags -o conv3 -I$deps/include -L$deps/lib -ldnnl -Wl,-rpath,$deps/lib
//   apt-get install libdnnl-dev && g++ $flags -o conv2 -ldnnl
//   OMP_NUM_THREADS=2 ./conv3 f32; OMP_NUM_THREADS=2 ./conv2 f32
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <vector>

using namespace dnnl;
using Desc = memory::desc;

namespace {

struct Case {
    int n, in, side, out, kernel;
};

// ResNet-18 and ResNet-50 layers at 32x32, two PyramidNet layers with odd channel counts, one
// ImageNet layer.
const Case cases[] = {{32, 64, 32, 64, 3},  {32, 128, 16, 128, 3}, {32, 256, 8, 256, 3},
                      {32, 512, 4, 512, 3}, {32, 26, 32, 31, 3},   {32, 136, 16, 141, 3},
                      {32, 256, 32, 64, 1}, {32, 64, 32, 256, 1},  {8, 64, 56, 64, 3}};

double median_seconds(const std::function<void()>& run) {
    std::vector<double> seconds;
    for (int i = -2; i < 9; ++i) {
        const auto start = std::chrono::steady_clock::now();
        run();
        if (i >= 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[4];
}

void measure(const engine& e, stream& s, const Case& c, memory::data_type type) {
    const memory::dims one{1, 1}, pad{c.kernel / 2, c.kernel / 2};
    const Desc x({c.n, c.in, c.side, c.side}, type, memory::format_tag::nhwc),
        y({c.n, c.out, c.side, c.side}, type, memory::format_tag::nhwc),
        w({c.out, c.in, c.kernel, c.kernel}, type, memory::format_tag::any);
    const auto direct = algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    const convolution_forward::primitive_desc f(e, prop_kind::forward_training, direct, x, w, y, one, pad, pad);
    const convolution_backward_data::primitive_desc d(e, direct, x, w, y, one, pad, pad, f);
    const convolution_backward_weights::primitive_desc g(e, direct, x, w, y, one, pad, pad, f);
#else
    const convolution_forward::primitive_desc f({prop_kind::forward_training, direct, x, w, y, one, pad, pad}, e);
    const convolution_backward_data::primitive_desc d({direct, x, w, y, one, pad, pad}, e, f);
    const convolution_backward_weights::primitive_desc g({direct, x, w, y, one, pad, pad}, e, f);
#endif
    memory mx(x, e), my(y, e), wf(f.weights_desc(), e), wd(d.weights_desc(), e), wg(g.diff_weights_desc(), e);
    const auto rate = [&](const primitive& p, const std::unordered_map<int, memory>& arguments) {
        const double flops = 2.0 * c.n * c.side * c.side * c.out * c.in * c.kernel * c.kernel;
        return flops / median_seconds([&] { p.execute(s, arguments), s.wait(); }) / 1e9;
    };
    std::printf(
        "%3d -> %3d channels, %2dx%-2d, %dx%d: forward %5.0f  data gradient %5.0f  weight gradient %5.0f GFLOP/s\n",
        c.in, c.out, c.side, c.side, c.kernel, c.kernel,
        rate(convolution_forward(f), {{DNNL_ARG_SRC, mx}, {DNNL_ARG_WEIGHTS, wf}, {DNNL_ARG_DST, my}}),
        rate(convolution_backward_data(d), {{DNNL_ARG_DIFF_DST, my}, {DNNL_ARG_WEIGHTS, wd}, {DNNL_ARG_DIFF_SRC, mx}}),
        rate(convolution_backward_weights(g),
             {{DNNL_ARG_SRC, mx}, {DNNL_ARG_DIFF_DST, my}, {DNNL_ARG_DIFF_WEIGHTS, wg}}));
}

}  // namespace

int main(int argc, char** argv) {
    const engine e(engine::kind::cpu, 0);
    stream s(e);
    const auto type = argc > 1 && !std::strcmp(argv[1], "bf16") ? memory::data_type::bf16 : memory::data_type::f32;
    std::printf("oneDNN %d.%d.%d\n", dnnl_version()->major, dnnl_version()->minor, dnnl_version()->patch);
    for (const Case& c : cases) measure(e, s, c, type);
}
