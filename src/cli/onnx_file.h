// A model as an ONNX file (github.com/onnx/onnx, opset 17): images [batch, channels, height, width]
// to logits [batch, classes].
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "model/graph.h"

namespace convoy {

struct OnnxOptions {
    /// Type of the weights. f16: the operations are in f16 too, and batch norms are folded into
    /// convolutions. bf16: weights with two or more dimensions are stored in bf16 and cast to f32
    /// before they are used, because few runtimes compute in bf16. Input and logits are always as
    /// for f32.
    DType dtype = DType::f32;
    std::map<std::string, std::string> metadata{};
    std::string producer{}, producer_version{};
    /// If set, the input is u8 pixels, and the model normalises them by this mean and deviation,
    /// per channel in units of pixel / 255. Empty: the input is f32 and already normalised.
    std::vector<float> mean{}, stddev{};
};

/// Returns the bytes of the file. `graph` must not be fused; `values` are its parameters by
/// ParamId. Throws Exit::bad_input if the file would have more than the 2 GiB that the format
/// allows, or if f16 cannot hold a constant.
std::string onnx_file(const Graph& graph, const std::vector<std::vector<float>>& values, const OnnxOptions&);

}  // namespace convoy
