// Chooses which ops compute both gradients side by side: those whose gradients would leave a GPU
// partly idle if they ran one after the other. The shapes decide, because the time of a plan does
// not tell how much of the GPU it uses.
#include "backend/gpu/algorithms.h"

namespace convoy::cuda {

GpuAlgorithms with_branches(GpuAlgorithms algorithms, int multiprocessors) {
    for (OpAlgorithm& algorithm : algorithms.per_op) {
        GemmAlgorithm& p = algorithm.gemm;
        if (multiprocessors > 0 && p.weight_gradient && p.data_gradient)
            p.side_by_side = p.weight_gradient->blocks() + p.data_gradient->blocks() <= multiprocessors;
    }
    return algorithms;
}

}  // namespace convoy::cuda
