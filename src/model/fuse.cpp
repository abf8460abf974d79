// Fusion: a batch norm absorbs the add and ReLU, or the GELU, that follow it. The fused op replaces
// the last op of its pattern, because a residual may be computed after the batch norm.
#include <algorithm>

#include "model/graph.h"

namespace convoy {
namespace {

class Fuser {
public:
    explicit Fuser(const Graph& graph)
        : graph_(graph), dead_(graph.ops.size(), false), producer_(writers_of(graph)), uses_(readers_of(graph)) {}

    Graph run() {
        for (size_t i = 0; i < graph_.ops.size(); ++i) {
            if (const auto* add = std::get_if<Add>(&graph_.ops[i])) fuse_add(int(i), *add);
            if (const auto* relu = std::get_if<Relu>(&graph_.ops[i]))
                fuse_activation(int(i), relu->x, relu->y, Activation::relu);
            if (const auto* gelu = std::get_if<Gelu>(&graph_.ops[i]))
                fuse_activation(int(i), gelu->x, gelu->y, Activation::gelu);
        }
        std::vector<Op> kept;
        for (size_t i = 0; i < graph_.ops.size(); ++i)
            if (!dead_[i]) kept.push_back(graph_.ops[i]);
        graph_.ops = std::move(kept);
        return std::move(graph_);
    }

private:
    /// Returns the batch norm that writes `v`, if `v` has a single reader and the norm has no
    /// activation yet; else null.
    const BatchNorm* fusable(ValueId v) const {
        if (producer_[v] == none || uses_[v] != 1) return nullptr;
        const auto* bn = std::get_if<BatchNorm>(&graph_.ops[producer_[v]]);
        return bn && bn->act == Activation::identity ? bn : nullptr;
    }

    void replace(int at, BatchNorm fused, ValueId absorbed) {
        dead_[producer_[absorbed]] = true;
        producer_[fused.y] = at;
        graph_.ops[at] = fused;
    }

    void fuse_add(int at, Add add) {
        const BatchNorm* bn = fusable(add.a);
        if (!bn || bn->residual != none) {
            std::swap(add.a, add.b);
            bn = fusable(add.a);
        }
        if (!bn || bn->residual != none) return;
        BatchNorm fused = *bn;
        fused.y = add.y;
        fused.residual = without_padding(add.b);
        replace(at, fused, add.a);
    }

    void fuse_activation(int at, ValueId x, ValueId y, Activation act) {
        const BatchNorm* bn = fusable(x);
        // a GELU's input cannot be recovered from its output, so a residual cannot be fused too
        if (!bn || (act == Activation::gelu && bn->residual != none)) return;
        BatchNorm fused = *bn;
        fused.y = y;
        fused.act = act;
        replace(at, fused, x);
    }

    /// Returns `residual`. If a shortcut of stride 1 writes it, returns the shortcut's input
    /// instead: channels that a residual lacks count as zero, so that the shortcut need not add
    /// them.
    ValueId without_padding(ValueId residual) {
        if (producer_[residual] == none || uses_[residual] != 1) return residual;
        const auto* shortcut = std::get_if<PadShortcut>(&graph_.ops[producer_[residual]]);
        if (!shortcut || shortcut->stride != 1) return residual;
        dead_[producer_[residual]] = true;
        return shortcut->x;
    }

    Graph graph_;
    std::vector<bool> dead_;
    std::vector<int> producer_;  // by ValueId: the op that writes it
    std::vector<int> uses_;      // by ValueId: how many ops read it
};

}  // namespace

Graph fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace convoy
