// Chooses which ops compute both gradients side by side: those whose gradients, one after the
// other, would leave a GPU partly idle. It goes by shapes, because one plan's time does not say how
// much of the GPU it uses.
#include "backend/gpu/ways.h"

namespace convoy::cuda {

GpuWays with_branches(GpuWays ways, int multiprocessors) {
    for (Way& way : ways.ways) {
        ProductWay& p = way.product;
        if (multiprocessors > 0 && p.weight_gradient && p.data_gradient)
            p.side_by_side = p.weight_gradient->blocks() + p.data_gradient->blocks() <= multiprocessors;
    }
    return ways;
}

}  // namespace convoy::cuda
