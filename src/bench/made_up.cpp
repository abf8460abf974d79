#include "bench/made_up.h"

#include <algorithm>

#include "data/decode.h"
#include "model/models.h"

namespace convoy {

SplitInfo made_up_split(const std::string& model, const MadeUpImages& wanted, int64_t global_batch, int64_t steps) {
    ModelOptions m = usual_images(model);
    if (wanted.size.h > 0) {
        m.h = wanted.size.h;
        m.w = wanted.size.w;
        m.c = wanted.size.c;
    }
    if (wanted.classes > 0) m.classes = int(wanted.classes);
    constexpr int64_t enough = 64 << 20;  // bytes, larger than caches
    const int64_t steps_in_memory = std::max<int64_t>(1, enough / (global_batch * m.h * m.w * m.c));
    SplitInfo info;
    info.split = "train";
    info.images = global_batch * std::min(steps, steps_in_memory);
    info.height = m.h;
    info.width = m.w;
    info.channels = m.c;
    info.classes = m.classes;
    info.mean.assign(size_t(m.c), 0.5f);
    info.stddev.assign(size_t(m.c), 0.25f);
    return info;
}

DataSet::Read made_up_rows(const SplitInfo& info, uint64_t seed) {
    const Source source = make_synthetic({.images = info.images,
                                          .test_images = 0,
                                          .height = info.height,
                                          .width = info.width,
                                          .channels = info.channels,
                                          .classes = info.classes,
                                          .seed = seed});
    return [split = source.splits.at(0)](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
        constexpr int64_t enough = 16 << 20;  // bytes
        const int64_t drawn = std::min(rows, std::max<int64_t>(1, enough / split.image_bytes()));
        split.read(first, drawn, images, labels);
        for (int64_t i = drawn; i < rows; ++i) {
            std::copy_n(images + (i - drawn) * split.image_bytes(), split.image_bytes(),
                        images + i * split.image_bytes());
            labels[i] = labels[i - drawn];
        }
    };
}

std::string size_text(const SplitInfo& i) {
    return std::to_string(i.height) + "x" + std::to_string(i.width) + "x" + std::to_string(i.channels);
}

}  // namespace convoy
