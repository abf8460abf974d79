// Computes the logits of images in host memory, batch by batch, on one rank.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "supply/preprocessing.h"
#include "train/program.h"
#include "train/state.h"

namespace convoy {

class Classifier {
public:
    /// Images have the size of the model's input, and are not resized. The graph and the state must
    /// outlive this object.
    Classifier(Backend&, const Graph&, const State&, const Preprocessing&, int batch);

    int batch() const { return batch_; }
    /// Takes images [n, height, width, channels] of uint8; n is at most batch(). Returns logits
    /// [n, classes].
    std::vector<float> run(std::span<const uint8_t> images);

private:
    Backend& backend_;
    const int batch_;
    const Shape shape_;  ///< of a batch of images
    const size_t classes_;
    Buffer images_, labels_, counters_, arena_;
    Tensor logits_;
    std::function<void()> step_;
};

}  // namespace convoy
