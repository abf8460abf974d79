// Tests which ops are fused with a batch norm, and which must not be.
#include <gtest/gtest.h>

#include "model/graph.h"

namespace convoy::test {
namespace {

struct Norms {
    int norms = 0, relus = 0, adds = 0, with_residual = 0, with_relu = 0;
    bool operator==(const Norms&) const = default;
};

Norms norms_of(const Graph& graph) {
    Norms n;
    for (const Op& op : graph.ops) {
        n.relus += std::holds_alternative<Relu>(op);
        n.adds += std::holds_alternative<Add>(op);
        if (const auto* bn = std::get_if<BatchNorm>(&op)) {
            ++n.norms;
            n.with_residual += bn->residual != none;
            n.with_relu += bn->act == Activation::relu;
        }
    }
    return n;
}

/// Fuses a graph of a batch norm and what `more` adds after it.
template <class More> Norms fused(const More& more) {
    GraphBuilder b("test", 8, 8, 4, 10);
    const ValueId x = b.batch_norm("bn", b.conv("conv", b.input(), 4, 3, 1, 1, {Init::constant, 0}));
    return norms_of(fuse(b.finish(b.linear("fc", more(b, x), 10), 0)));
}

TEST(Fuse, WhatAloneReadsABatchNormIsFused) {
    EXPECT_EQ(fused([](GraphBuilder& b, ValueId x) { return b.relu(x); }), (Norms{.norms = 1, .with_relu = 1}));
    for (const bool first : {true, false})
        EXPECT_EQ(fused([first](GraphBuilder& b, ValueId x) {
                      const ValueId other = b.relu(b.conv("other", b.input(), 4, 1, 1, 0, {Init::constant, 0}));
                      return b.relu(first ? b.add(x, other) : b.add(other, x));
                  }),
                  (Norms{.norms = 1, .relus = 1, .with_residual = 1, .with_relu = 1}));
}

// Another op reads the batch norm's output.
TEST(Fuse, ABatchNormWithSeveralReadersStays) {
    EXPECT_EQ(fused([](GraphBuilder& b, ValueId x) { return b.add(b.relu(x), x); }),
              (Norms{.norms = 1, .relus = 1, .adds = 1}));
    EXPECT_EQ(fused([](GraphBuilder& b, ValueId x) { return b.relu(b.add(x, x)); }),
              (Norms{.norms = 1, .relus = 1, .adds = 1}));
    EXPECT_EQ(fused([](GraphBuilder& b, ValueId x) {
                  return b.add(b.relu(x), b.conv("other", x, 4, 1, 1, 0, {Init::constant, 0}));
              }),
              (Norms{.norms = 1, .relus = 1, .adds = 1}));
}

TEST(Fuse, AnActivationIsTheLast) {
    EXPECT_EQ(fused([](GraphBuilder& b, ValueId x) { return b.relu(b.relu(x)); }),
              (Norms{.norms = 1, .relus = 1, .with_relu = 1}));
}

}  // namespace
}  // namespace convoy::test
