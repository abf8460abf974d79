// Options of convoy convert imagefolder.
#pragma once
#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "data/shard_assignment.h"

namespace convoy {

struct ImageOptions {
    ImageSource train, test;  ///< test.from empty: a share of the training images
    std::string classes, to;
    ImageRules rules;
    ShardOptions sharding;
    bool force = false;
};

boost::program_options::options_description image_options();
/// Throws Exit::usage.
ImageOptions parse_image_options(const std::vector<std::string>& args);

}  // namespace convoy
