// Adds a bias to what a convolution or a linear layer wrote, from one type to another: logits leave low precision here.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

/// from [rows, from_stored], bias [channels], to [rows, to_stored]; one thread an element of `to`.
template <class F, class T>
__global__ void bias_kernel(const F* from, int from_stored, const float* bias, int channels, T* to, int to_stored, int64_t elements) {
    const int64_t i = global_index();
    if (i >= elements) return;
    const int64_t row = i / to_stored;
    const int c = int(i - row * to_stored);
    to[i] = from_float<T>(c < channels ? to_float(from[row * from_stored + c]) + bias[c] : 0.0f);
}

}  // namespace

void add_bias(const Tensor& from, const float* bias, const Tensor& to, cudaStream_t stream) {
    require(from.shape.pixels() == to.shape.pixels() && from.channels() == to.channels(), "a bias keeps the shape");
    const int64_t elements = int64_t(to.count());
    with_type(from.dtype, [&](auto f) {
        with_type(to.dtype, [&](auto t) {
            using F = decltype(f);
            using T = decltype(t);
            launch(bias_kernel<F, T>, dim3(blocks_for(elements)), dim3(block_threads), 0, stream, static_cast<const F*>(data_of<F>(from)),
                   from.shape.c, bias, to.channels(), data_of<T>(to), to.shape.c, elements);
        });
    });
}

}  // namespace convoy::kernels
