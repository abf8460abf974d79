// ResNets of 18 to 152 layers (He et al., "Deep Residual Learning", CVPR 2016), version 1.5: the
// 3x3 convolution of a bottleneck has the stride. The CIFAR stem is a 3x3 convolution without
// pooling.
#include <cmath>

#include "model/models.h"

namespace convoy {
namespace {

ValueId conv_bn(GraphBuilder& g, const std::string& block, const std::string& suffix, ValueId x, int out, int kernel,
                int stride) {
    const ValueId y =
        g.conv(block + ".conv" + suffix, x, out, kernel, stride, kernel / 2, kaiming_fan_out(kernel, out));
    return g.batch_norm(block + ".bn" + suffix, y);
}

ValueId shortcut(GraphBuilder& g, const std::string& block, ValueId x, int out, int stride) {
    if (stride == 1 && g.value(x).c == out) return x;
    return g.batch_norm(block + ".down.bn",
                        g.conv(block + ".down.conv", x, out, 1, stride, 0, kaiming_fan_out(1, out)));
}

ValueId basic_block(GraphBuilder& g, const std::string& name, ValueId x, int width, int stride) {
    ValueId y = g.relu(conv_bn(g, name, "1", x, width, 3, stride));
    y = conv_bn(g, name, "2", y, width, 3, 1);
    return g.relu(g.add(y, shortcut(g, name, x, width, stride)));
}

ValueId bottleneck(GraphBuilder& g, const std::string& name, ValueId x, int width, int stride) {
    ValueId y = g.relu(conv_bn(g, name, "1", x, width, 1, 1));
    y = g.relu(conv_bn(g, name, "2", y, width, 3, stride));
    y = conv_bn(g, name, "3", y, 4 * width, 1, 1);
    return g.relu(g.add(y, shortcut(g, name, x, 4 * width, stride)));
}

ValueId stem(GraphBuilder& g, const ModelOptions& o) {
    const bool cifar = stem_of(o) == "cifar";
    const int kernel = cifar ? 3 : 7, stride = cifar ? 1 : 2;
    ValueId x = g.conv("stem.conv", g.input(), 64, kernel, stride, kernel / 2, kaiming_fan_out(kernel, 64));
    x = g.relu(g.batch_norm("stem.bn", x));
    return cifar ? x : g.max_pool(x, 3, 2, 1);
}

using Block = ValueId (*)(GraphBuilder&, const std::string&, ValueId, int width, int stride);

Graph build_resnet(const ModelOptions& o, Block block, const int (&blocks)[4]) {
    if (o.h != o.w)
        fail(Exit::bad_input, "model " + o.name + " takes square images, the data has " + std::to_string(o.h) + "x" +
                                  std::to_string(o.w));
    GraphBuilder g(o.name, o.h, o.w, o.c, o.classes);
    ValueId x = stem(g, o);
    for (int stage = 0; stage < 4; ++stage)
        for (int k = 0; k < blocks[stage]; ++k)
            x = block(g, "stage" + std::to_string(stage + 1) + ".block" + std::to_string(k), x, 64 << stage,
                      stage > 0 && k == 0 ? 2 : 1);
    return g.finish(g.linear("fc", g.global_average_pool(x), o.classes), o.label_smoothing, o.sum_loss);
}

}  // namespace

std::string stem_of(const ModelOptions& o) {
    if (!o.name.starts_with("resnet")) return "";
    if (o.stem != "auto") return o.stem;
    // On images of up to 64 pixels the ImageNet stem would leave the last stage 2x2 or smaller.
    return o.h <= 64 ? "cifar" : "imagenet";
}

Graph build_resnet18(const ModelOptions& o) { return build_resnet(o, basic_block, {2, 2, 2, 2}); }
Graph build_resnet34(const ModelOptions& o) { return build_resnet(o, basic_block, {3, 4, 6, 3}); }
Graph build_resnet50(const ModelOptions& o) { return build_resnet(o, bottleneck, {3, 4, 6, 3}); }
Graph build_resnet101(const ModelOptions& o) { return build_resnet(o, bottleneck, {3, 4, 23, 3}); }
Graph build_resnet152(const ModelOptions& o) { return build_resnet(o, bottleneck, {3, 8, 36, 3}); }

}  // namespace convoy
