// A model as an ONNX file (github.com/onnx/onnx, opset 17): images [batch, channels, height, width]
// to logits [batch, classes].
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/graph.h"

namespace convoy {

struct OnnxOptions {
    std::map<std::string, std::string> metadata{};
    std::string producer{}, producer_version{};
    /// The input is pixels, u8; mean and deviation by channel in units of pixel / 255 are part of
    /// the model. Empty: the input is normalised already, f32.
    std::vector<float> mean{}, stddev{};
};

/// Returns the bytes of the file. `graph` must not be fused; `values` are its parameters by
/// ParamId. Throws Exit::bad_input if the file would have more than the 2 GiB that the format
/// allows.
std::string onnx_file(const Graph& graph, const std::vector<std::vector<float>>& values, const OnnxOptions&);

}  // namespace convoy
