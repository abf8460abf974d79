// The models by name. A model is one function that builds a graph. A new model needs a short file
// and a line in the table.
#pragma once
#include <string>
#include <vector>

#include "model/graph.h"

namespace convoy {

struct ModelOptions {
    std::string name;
    int h = 0, w = 0, c = 0, classes = 0;
    std::string stem = "auto";  ///< resnets: imagenet, cifar, or auto by input size
    float label_smoothing = 0;
    bool dropout = true;    ///< false: omit dropout (golden values)
    bool sum_loss = false;  ///< true: gradients of the sum of the loss over the batch, not of its mean
};

/// Builds the unfused graph. Throws Exit::usage for an unknown name, Exit::bad_input if the images
/// do not fit the model.
Graph build_model(const ModelOptions&);
std::vector<std::string> model_names();
/// Returns options with the only image size that a model takes, and 10 classes. The size is `any`
/// if the model takes every size. An unknown name also gets `any`; build_model() rejects it.
ModelOptions usual_images(const std::string& name, Shape any = {1, 32, 32, 3});

/// Returns a resnet's stem, imagenet or cifar; chosen by image size if o.stem is "auto". Empty for
/// other models.
std::string stem_of(const ModelOptions&);

// Builders; each family has a file in this folder.
Graph build_pyramidnet(const ModelOptions&, int blocks_per_stage);
Graph build_resnet18(const ModelOptions&);
Graph build_resnet34(const ModelOptions&);
Graph build_resnet50(const ModelOptions&);
Graph build_resnet101(const ModelOptions&);
Graph build_resnet152(const ModelOptions&);
Graph build_airbench94(const ModelOptions&, bool muon);
Graph build_mnist_conv(const ModelOptions&);
Graph build_linear(const ModelOptions&);

}  // namespace convoy
