// The names that PyTorch's implementations of the models give to the same tensors.
#pragma once
#include <string>

namespace convoy {

/// Returns the name that tensor `name` ("stage1.block0.conv1.weight") of `model` has in PyTorch.
/// The names are those of torchvision for the resnets ("layer1.0.conv1.weight"), of the authors'
/// implementations for PyramidNet (github.com/dyhan0920/PyramidNet-PyTorch) and airbench94
/// (github.com/KellerJordan/cifar10-airbench), and of PyTorch's MNIST example.
std::string torch_name(const std::string& model, const std::string& name);

}  // namespace convoy
