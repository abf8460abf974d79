// Graphs of models for the CUDA backend's tests.
#pragma once
#include <string>

#include "model/models.h"
#include "model/precision.h"

namespace convoy::test {

/// Returns the fused graph of a model for square images of `size` pixels, in precision `p`.
inline Graph cuda_graph(const std::string& name, int size, int channels, int classes, Precision p) {
    ModelOptions o;
    o.name = name;
    o.h = o.w = size;
    o.c = channels;
    o.classes = classes;
    return with_precision(fuse(build_model(o)), p);
}

}  // namespace convoy::test
