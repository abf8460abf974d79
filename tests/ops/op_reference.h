// Every op as scalar loops in double: the reference for backends. It has no backward: gradients are
// compared with differences of this forward.
#pragma once
#include <vector>

#include "model/graph.h"
#include "tests/ops/op_harness.h"

namespace convoy::test {

using Doubles = std::vector<double>;

class Reference {
public:
    Reference(const Graph&, int batch, OpSetting);

    /// indexed by id; ops write values, and batch norms in training also write running statistics
    std::vector<Doubles> values, params;
    std::vector<int32_t> labels;
    double loss_sum = 0;
    int correct = 0, top5 = 0;

    void run();  ///< all ops in order

private:
    /// Returns element (n, i, j, c) of a value.
    double at(ValueId, int n, int i, int j, int c) const;
    Shape shape(ValueId id) const { return graph_->values[id].batched(batch_); }
    void run(const Conv&);
    void run(const BatchNorm&);
    void run(const Relu&);
    void run(const Gelu&);
    void run(const Scale&);
    void run(const Add&);
    void run(const Pool&);
    void run(const PadShortcut&);
    void run(const Linear&);
    void run(const Dropout&);
    void run(const SoftmaxXent&);
    const Graph* graph_;
    int batch_;
    OpSetting setting_;
};

}  // namespace convoy::test
