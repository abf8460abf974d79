// Published trainings that `convoy report` shows beside a run of the same model and images.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

struct PublishedRun {
    std::string source, model, image_size;  ///< "32x32x3"
    int64_t classes = 0, global_batch = 0, nodes = 0, gpus = 0;
    double step_seconds = 0;
    int64_t epoch_images = 0;
    double epoch_seconds = 0;
    std::string utilisation{};  ///< as published: "98 and 99 %"

    double images_per_second() const { return double(epoch_images) / epoch_seconds; }
};

/// Reads the lines after a header; # starts a comment. output/published/pyramidnet-p100.csv is such
/// a file. Throws Exit::bad_input naming the line.
std::vector<PublishedRun> read_published_runs(const std::string& path);

}  // namespace convoy
