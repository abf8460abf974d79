// airbench94 (Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024). It has whitening
// filters computed from the data, then three groups of two convolutions that start as the identity.
// Batch norms have no scale, and a new batch weighs 0.4 in the running statistics.
#include <cmath>

#include "model/models.h"

namespace convoy {
namespace {

ValueId norm_gelu(GraphBuilder& g, const std::string& name, ValueId x) {
    constexpr float epsilon = 1e-12f, momentum = 0.4f;
    return g.gelu(g.batch_norm(name, x, epsilon, momentum, false));
}

ValueId group(GraphBuilder& g, const std::string& name, ValueId x, int width) {
    x = g.conv(name + ".conv1", x, width, 3, 1, 1, identity_fan_in(3, g.value(x).c));
    x = norm_gelu(g, name + ".bn1", g.max_pool(x, 2, 2));
    x = g.conv(name + ".conv2", x, width, 3, 1, 1, identity_fan_in(3, width));
    return norm_gelu(g, name + ".bn2", x);
}

}  // namespace

Graph build_airbench94(const ModelOptions& o, bool muon) {
    GraphBuilder g(o.name, o.h, o.w, o.c, o.classes);
    ValueId x = g.gelu(g.whitening_conv("whitening", g.input(), 2));
    int k = 0;
    for (const int width : {64, 256, 256}) x = group(g, "group" + std::to_string(++k), x, width);
    // For Muon the last weights start with a standard deviation of 1, and a smaller scale of the
    // logits compensates for that.
    x = g.linear("fc", g.max_pool(x, 3, 3), o.classes, false, muon ? std::sqrt(3.0f) : 0.0f);
    return g.finish(g.scale(x, muon ? 1.0f / 256 : 1.0f / 9), o.label_smoothing, o.sum_loss);
}

}  // namespace convoy
