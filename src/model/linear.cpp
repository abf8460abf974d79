// One linear layer over all pixels: mnist-linear (784 -> 10) and linear (10 -> 10). The latter, of
// 110 parameters, shows that a run works, but not that it learns.
#include "model/models.h"

namespace convoy {

Graph build_linear(const ModelOptions& o) {
    GraphBuilder g(o.name, o.h, o.w, o.c, o.classes);
    return g.finish(g.linear("fc", g.input(), o.classes), o.label_smoothing, o.sum_loss);
}

}  // namespace convoy
