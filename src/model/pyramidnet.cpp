// PyramidNet with basic blocks (Han, Kim, Kim, "Deep Pyramidal Residual Networks", CVPR 2017): the
// width grows by exactly 5 channels per block, from 16. No ReLU follows a block's first batch norm
// or its add.
#include <cmath>

#include "model/models.h"

namespace convoy {
namespace {

ValueId block(GraphBuilder& g, const std::string& name, ValueId x, int out, int stride) {
    ValueId y = g.batch_norm(name + ".bn1", x);
    y = g.conv(name + ".conv1", y, out, 3, stride, 1, kaiming_fan_out(3, out));
    y = g.relu(g.batch_norm(name + ".bn2", y));
    y = g.conv(name + ".conv2", y, out, 3, 1, 1, kaiming_fan_out(3, out));
    y = g.batch_norm(name + ".bn3", y);
    return g.add(y, g.pad_shortcut(x, out, stride));
}

}  // namespace

Graph build_pyramidnet(const ModelOptions& o, int blocks_per_stage) {
    constexpr int growth = 5;
    if (o.h != o.w || o.h % 4 != 0)
        fail(Exit::bad_input, "model " + o.name + " takes square images with sides divisible by 4, the data has " +
                                  std::to_string(o.h) + "x" + std::to_string(o.w));
    GraphBuilder g(o.name, o.h, o.w, o.c, o.classes);
    int width = 16;
    ValueId x = g.batch_norm("stem.bn", g.conv("stem.conv", g.input(), width, 3, 1, 1, kaiming_fan_out(3, width)));
    for (int stage = 1; stage <= 3; ++stage)
        for (int k = 0; k < blocks_per_stage; ++k) {
            width += growth;
            x = block(g, "stage" + std::to_string(stage) + ".block" + std::to_string(k), x, width,
                      stage > 1 && k == 0 ? 2 : 1);
        }
    x = g.global_average_pool(g.relu(g.batch_norm("head.bn", x)));
    return g.finish(g.linear("fc", x, o.classes), o.label_smoothing, o.sum_loss);
}

}  // namespace convoy
