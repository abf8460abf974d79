// Resolves the options about images: which part of each image the model sees.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "cli/train_setup.h"

namespace convoy {
namespace {

/// Refuses options that vectors (f32) do not support: they are not resized, and have no left and
/// right.
void check_vectors(const TrainOptions& o) {
    const Augment& a = o.setup.augment;
    for (const auto& [given, option] : {std::pair{a.pad > 0, "--crop-pad"},
                                        {a.flip, "--flip"},
                                        {a.jitters(), "--color-jitter"},
                                        {a.mixup > 0, "--mixup"},
                                        {a.cutmix > 0, "--cutmix"},
                                        {o.setup.tta != Tta::plain, "--tta"},
                                        {o.image_size.side > 0, "--image-size"},
                                        {o.setup.preprocessing.short_side > 0, "--resize"},
                                        {o.random_windows(), "--random-resized-crop"}})
        if (given)
            fail(Exit::usage, std::string(option) + " is for images, and " + o.data + " holds vectors; leave it out");
    if (o.model.name.starts_with("airbench94"))
        fail(Exit::usage,
             "--model " + o.model.name + " takes images, and " + o.data + " holds vectors; choose another one");
}

int side_of(const TrainOptions& o) { return o.image_size.side; }

/// Returns true if images have the size that the model sees.
bool of_model_size(const TrainOptions& o, const SplitInfo& data) {
    return !data.ragged && (side_of(o) == 0 || (side_of(o) == data.height && side_of(o) == data.width));
}

/// Returns the short side that torchvision's references use: 256 for 224.
int default_short_side(int side) { return int(std::lround(side * 8.0 / 7)); }

}  // namespace

void check_images(const TrainOptions& o, const SplitInfo& data) {
    if (data.type == DType::f32) return check_vectors(o);
    if (o.setup.augment.jitters() && data.channels != 3)
        fail(Exit::usage, "--color-jitter is for images of red, green and blue, and " +
                              (o.data.empty() ? "made-up ones" : "those of " + o.data) + " have " +
                              std::to_string(data.channels) + (data.channels == 1 ? " channel" : " channels") +
                              "; leave it out");
    if (data.ragged && side_of(o) == 0)
        fail(Exit::usage, o.data + ": its images are of many sizes, up to " + std::to_string(data.height) + "x" +
                              std::to_string(data.width) + "; give --image-size, as in --image-size 224");
    if (const int side = o.setup.preprocessing.short_side;
        side > 0 && side_of(o) == 0 && side < std::max(data.height, data.width))
        fail(Exit::usage, "--resize " + std::to_string(side) + ": is smaller than the images, which the model " +
                              "sees whole; give --image-size too");
    const Crop crop = augment_of(o, data).crop;
    const int pad = o.setup.augment.pad;
    if ((crop != Crop::shifted || !o.image_size.earlier.empty()) && pad > 0)
        fail(Exit::usage, "--crop-pad " + std::to_string(pad) +
                              " shifts images of the model's size, and these are resized; give --crop-pad 0, also if a "
                              "recipe sets it; for random windows, add --random-resized-crop");
    if (crop != Crop::shifted && o.model.name.starts_with("airbench94"))
        fail(Exit::usage, "--model " + o.model.name +
                              " takes its first filters from images as they are, and these are " +
                              "resized; choose another one, or leave out --image-size");
    if (o.setup.augment.reflect && pad >= std::min(data.height, data.width))
        fail(Exit::usage, "--crop-pad " + std::to_string(pad) + ": reflected padding must be smaller than the image");
}

ModelOptions model_of(const TrainOptions& o, const SplitInfo& data) {
    ModelOptions m = o.model;
    m.h = side_of(o) > 0 ? side_of(o) : data.height;
    m.w = side_of(o) > 0 ? side_of(o) : data.width;
    m.c = data.channels;
    m.classes = data.classes;
    return m;
}

std::vector<EarlierGraph> earlier_graphs(const TrainOptions& o, const SplitInfo& data, const Graph& graph,
                                         const std::function<Graph(const ModelOptions&)>& build) {
    std::vector<EarlierGraph> all;
    for (const auto& [side, until] : o.image_size.earlier) {
        ModelOptions model = model_of(o, data);
        if (!stem_of(model).empty()) model.stem = stem_of(model);  // the stem of the last image size
        model.h = model.w = side;
        all.push_back({build(model), until});
        const std::vector<Param>&own = all.back().graph.params, &last = graph.params;
        require(std::equal(own.begin(), own.end(), last.begin(), last.end(),
                           [](const Param& a, const Param& b) { return a.name == b.name && a.shape == b.shape; }),
                "a model that takes images of any size has the same parameters for all");
    }
    return all;
}

Augment augment_of(const TrainOptions& o, const SplitInfo& data) {
    Augment a = o.setup.augment;
    a.short_side = preprocessing_of(o, data).short_side;
    if (a.short_side > 0 && !o.random_windows()) a.crop = Crop::centre;
    return a;
}

Preprocessing preprocessing_of(const TrainOptions& o, const SplitInfo& data) {
    Preprocessing p{data.mean, data.stddev, o.setup.preprocessing.short_side};
    const auto replace = [&](const char* option, const NumberList& given, std::vector<float>& by_channel) {
        if (given.values.empty()) return;
        if (int(given.values.size()) != data.channels)
            fail(Exit::usage, "--" + std::string(option) + " " + given.text + ": the images have " +
                                  std::to_string(data.channels) + " channels; give one number each");
        by_channel.assign(given.values.begin(), given.values.end());
    };
    replace("mean", o.mean, p.mean);
    replace("stddev", o.stddev, p.stddev);
    for (float& deviation : p.stddev)
        if (deviation <= 0) deviation = 1;  // a constant channel carries nothing to scale
    if (p.short_side == 0 && !of_model_size(o, data)) p.short_side = default_short_side(side_of(o));
    return p;
}

}  // namespace convoy
