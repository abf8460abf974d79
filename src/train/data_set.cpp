#include "train/data_set.h"

#include <algorithm>
#include <climits>

#include "base/clock.h"
#include "plan/split.h"

namespace convoy {

SplitInfo first_images(SplitInfo info, int64_t most) {
    if (most > 0) info.images = std::min(info.images, most);
    return info;
}

DataSet::DataSet(Comm& comm, Backend& backend, const SplitReader& reader, int64_t most)
    : DataSet(comm, backend, first_images(reader.info(), most),
              [&](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
                  reader.read(first, rows, images, labels);
              }) {}

DataSet::DataSet(Comm& comm, Backend& backend, const SplitInfo& info, const Read& read)
    : info_(info),
      pixels_(std::make_unique<Replicated>(comm, info_.image_bytes())),
      classes_(std::make_unique<Replicated>(comm, info_.label_bytes())) {
    const auto start = Clock::now();
    const size_t image = info_.row_bytes();
    std::vector<size_t> pixel_offsets, class_offsets;
    for (int r = 0; r <= comm.size(); ++r) {
        const size_t first = size_t(r < comm.size() ? share_of(info_.images, comm.size(), r).first : info_.images);
        pixel_offsets.push_back(first * image);
        class_offsets.push_back(first * sizeof(int32_t));
    }
    const Share mine = share_of(info_.images, comm.size(), comm.rank());
    comm.together([&] {
        const Doing doing(comm.activity(), "reading the data set");
        require(info_.images <= INT_MAX, "SplitReader refuses splits whose rows no int can number");
        if (mine.count > 0)
            read(mine.first, mine.count, reinterpret_cast<uint8_t*>(pixels_->data() + pixel_offsets[comm.rank()]),
                 reinterpret_cast<int32_t*>(classes_->data() + class_offsets[comm.rank()]));
    });
    pixels_->complete(pixel_offsets);
    classes_->complete(class_offsets);

    bind(backend, pixels_->data(), classes_->data());
    seconds_ = seconds_since(start);
}

DataSet::DataSet(Backend& backend, const SplitInfo& info) : info_(info) { bind(backend, nullptr, nullptr); }

void DataSet::bind(Backend& backend, void* pixels, void* classes) {
    device_pixels_ = backend.resident(pixels, info_.image_bytes());
    device_classes_ = backend.resident(classes, info_.label_bytes());
    images_ = {device_pixels_.get(), {int(info_.images), info_.height, info_.width, info_.channels}, info_.type};
    labels_ = {device_classes_.get(), {int(info_.images), 1, 1, 1}, DType::i32};
}

}  // namespace convoy
