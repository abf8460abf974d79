// Chooses which ops compute both gradients side by side: those whose gradients, one after the
// other, would leave a GPU partly idle. It goes by shapes, because one plan's time does not say how
// much of the GPU it uses.
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
