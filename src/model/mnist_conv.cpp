// The small convolutional net of PyTorch's MNIST example: two 5x5 convolutions, two linear layers,
// 21,840 parameters.
#include <cmath>

#include "model/models.h"

namespace convoy {

Graph build_mnist_conv(const ModelOptions& o) {
    const auto conv_init = [](int in) { return Init{Init::uniform, 1.0f / std::sqrt(25.0f * float(in))}; };
    const float half = o.dropout ? 0.5f : 0.0f;
    GraphBuilder g(o.name, o.h, o.w, o.c, o.classes);
    ValueId x = g.conv("conv1", g.input(), 10, 5, 1, 0, conv_init(1), true);
    x = g.relu(g.max_pool(x, 2, 2));
    x = g.dropout(g.conv("conv2", x, 20, 5, 1, 0, conv_init(10), true), half, true);
    x = g.relu(g.max_pool(x, 2, 2));
    x = g.dropout(g.relu(g.linear("fc1", x, 50)), half);
    return g.finish(g.linear("fc2", x, o.classes), o.label_smoothing, o.sum_loss);
}

}  // namespace convoy
