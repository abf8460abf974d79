// Which products' gradients run side by side: those that leave a GPU idle one after the other. By
// shapes, because no time of one plan says how much of the device it leaves.
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
