// Turns options about images into the part of each image that the model sees.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "cli/train_setup.h"

namespace convoy {
namespace {

/// Vectors (f32) are taken as they are, and have no left and right.
void check_vectors(const TrainOptions& o) {
    for (const auto& [given, option] : {std::pair{o.crop_pad > 0, "--crop-pad"},
                                        {o.flip, "--flip"},
                                        {o.color_jitter.on(), "--color-jitter"},
                                        {o.mixup > 0, "--mixup"},
                                        {o.cutmix > 0, "--cutmix"},
                                        {o.tta != Tta::plain, "--tta"},
                                        {o.image_size.side > 0, "--image-size"},
                                        {o.resize > 0, "--resize"},
                                        {o.random_resized_crop, "--random-resized-crop"}})
        if (given)
            fail(Exit::usage, std::string(option) + " is for images, and " + o.data + " holds vectors; leave it out");
    if (o.model.starts_with("airbench94"))
        fail(Exit::usage, "--model " + o.model + " takes images, and " + o.data + " holds vectors; choose another one");
}

int side_of(const TrainOptions& o) { return o.image_size.side; }

/// Whether images have the size that the model sees.
bool of_model_size(const TrainOptions& o, const SplitInfo& data) {
    return !data.ragged && (side_of(o) == 0 || (side_of(o) == data.height && side_of(o) == data.width));
}

/// Returns the short side that torchvision's references use: 256 for 224.
int default_short_side(int side) { return int(std::lround(side * 8.0 / 7)); }

}  // namespace

void check_images(const TrainOptions& o, const SplitInfo& data) {
    if (data.type == DType::f32) return check_vectors(o);
    if (o.color_jitter.on() && data.channels != 3)
        fail(Exit::usage, "--color-jitter is for images of red, green and blue, and " +
                              (o.data.empty() ? "made-up ones" : "those of " + o.data) + " have " +
                              std::to_string(data.channels) + (data.channels == 1 ? " channel" : " channels") +
                              "; leave it out");
    if (data.ragged && side_of(o) == 0)
        fail(Exit::usage, o.data + ": its images are of many sizes, up to " + std::to_string(data.height) + "x" +
                              std::to_string(data.width) + "; give --image-size, as in --image-size 224");
    if (o.resize > 0 && side_of(o) == 0 && o.resize < std::max(data.height, data.width))
        fail(Exit::usage, "--resize " + std::to_string(o.resize) + ": is less than the images have, and the model " +
                              "sees all of them; give --image-size too");
    const Crop crop = augment_of(o, data).crop;
    if ((crop != Crop::shifted || !o.image_size.earlier.empty()) && o.crop_pad > 0)
        fail(Exit::usage, "--crop-pad " + std::to_string(o.crop_pad) +
                              " moves images of the model's size, and these are resized; --crop-pad 0 switches it off, "
                              "also a recipe's, and --random-resized-crop beside it takes random windows");
    if (crop != Crop::shifted && o.model.starts_with("airbench94"))
        fail(Exit::usage, "--model " + o.model + " takes its first filters from images as they are, and these are " +
                              "resized; choose another one, or leave out --image-size");
    if (o.crop_reflect && o.crop_pad >= std::min(data.height, data.width))
        fail(Exit::usage,
             "--crop-pad " + std::to_string(o.crop_pad) + ": reflected padding must be smaller than the image");
}

ModelOptions model_of(const TrainOptions& o, const SplitInfo& data) {
    return {.name = o.model,
            .h = side_of(o) > 0 ? side_of(o) : data.height,
            .w = side_of(o) > 0 ? side_of(o) : data.width,
            .c = data.channels,
            .classes = data.classes,
            .stem = o.stem,
            .label_smoothing = float(o.label_smoothing),
            .sum_loss = o.sum_loss};
}

std::vector<EarlierGraph> earlier_graphs(const TrainOptions& o, const SplitInfo& data, const Graph& graph,
                                         const std::function<Graph(const ModelOptions&)>& build) {
    std::vector<EarlierGraph> all;
    for (const auto& [side, until] : o.image_size.earlier) {
        ModelOptions model = model_of(o, data);
        if (!stem_of(model).empty()) model.stem = stem_of(model);  // not that of the smaller images
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
    Augment a = preprocessing_of(o, data).plain();
    if (o.random_resized_crop) {
        a.crop = Crop::random_resized;
        a.scale_low = float(o.crop_scale.low);
        a.scale_high = float(o.crop_scale.high);
        a.ratio_low = float(o.crop_ratio.low);
        a.ratio_high = float(o.crop_ratio.high);
    }
    a.pad = int(o.crop_pad);
    a.reflect = o.crop_reflect;
    a.flip = o.flip;
    a.alternate = o.flip_alternate;
    a.brightness = float(o.color_jitter.brightness);
    a.contrast = float(o.color_jitter.contrast);
    a.saturation = float(o.color_jitter.saturation);
    a.hue = float(o.color_jitter.hue);
    a.mixup = float(o.mixup);
    a.cutmix = float(o.cutmix);
    return a;
}

Preprocessing preprocessing_of(const TrainOptions& o, const SplitInfo& data) {
    Preprocessing p{data.mean, data.stddev};
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
    if (o.resize > 0)
        p.short_side = int(o.resize);
    else if (!of_model_size(o, data))
        p.short_side = default_short_side(side_of(o));
    return p;
}

}  // namespace convoy
