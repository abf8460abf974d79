// Options of convoy convert imagefolder.
#pragma once
#include <string>
#include <vector>

#include "data/image_plan.h"

namespace convoy {

struct ImageOptions {
    ImageSource train, test;  ///< test.from empty: a share of the training images
    std::string classes, to;
    ImageRules rules;
    PlanOptions plan;
    bool force = false;
    std::string help;  ///< what --help prints
};

/// Throws Exit::usage.
ImageOptions parse_image_options(const std::vector<std::string>& args);

}  // namespace convoy
