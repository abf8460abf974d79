#include "train/data_set.h"

#include <algorithm>
#include <climits>

#include "base/clock.h"
#include "base/text.h"
#include "plan/split.h"

namespace convoy {

SplitInfo first_images(const SplitReader& reader, int64_t most) {
    SplitInfo info = reader.info();
    if (most <= 0 || most >= info.images) return info;
    info.images = most;
    if (info.ragged) info.pixel_bytes = reader.places()[size_t(most)].offset;
    return info;
}

Placed place(Placement wanted, const Backend& backend, size_t bytes) {
    const std::optional<size_t> free = backend.device_memory_free();
    if (!free) return {Placement::replicate, ""};
    if (wanted == Placement::automatic) wanted = bytes <= *free / 2 ? Placement::replicate : Placement::node;
    const auto gib = [](size_t n) { return double(n) / (size_t(1) << 30); };
    return {wanted, formatted(wanted == Placement::replicate
                                  ? "each GPU holds all images, %.2f GiB; %.2f GiB were free"
                                  : "the node's memory holds all images, %.2f GiB, and GPUs read their batches from "
                                    "there; %.2f GiB were free on this one",
                              gib(bytes), gib(*free))};
}

DataSet::DataSet(Comm& comm, Backend& backend, const SplitReader& reader, int64_t most, Placement placement)
    : DataSet(
          comm, backend, first_images(reader, most),
          [&](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
              reader.read(first, rows, images, labels);
          },
          reader.info().ragged ? reader.places() : std::vector<ImagePlace>(), placement) {}

DataSet::DataSet(Comm& comm, Backend& backend, const SplitInfo& info, const Read& read, std::vector<ImagePlace> places,
                 Placement placement)
    : info_(info),
      places_(std::move(places)),
      pixels_(std::make_unique<Replicated>(comm, info_.image_bytes())),
      classes_(std::make_unique<Replicated>(comm, info_.label_bytes())) {
    const auto start = Clock::now();
    std::vector<size_t> pixel_offsets, class_offsets;
    for (int r = 0; r <= comm.size(); ++r) {
        const size_t first = size_t(r < comm.size() ? share_of(info_.images, comm.size(), r).first : info_.images);
        pixel_offsets.push_back(offset_of(int64_t(first)));
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

    bind(backend, placement, pixels_->data(), classes_->data());
    seconds_ = seconds_since(start);
}

DataSet::DataSet(Backend& backend, const SplitInfo& info, Placement placement) : info_(info) {
    bind(backend, placement, nullptr, nullptr);
}

size_t DataSet::offset_of(int64_t row) const {
    if (row == info_.images) return info_.image_bytes();
    return info_.ragged ? size_t(places_[size_t(row)].offset) : size_t(row) * info_.row_bytes();
}

void DataSet::bind(Backend& backend, Placement placement, void* pixels, void* classes) {
    device_pixels_ = placement == Placement::node ? backend.mapped(pixels, info_.image_bytes())
                                                  : backend.resident(pixels, info_.image_bytes());
    device_classes_ = backend.resident(classes, info_.label_bytes());
    if (info_.ragged) device_places_ = backend.resident(places_.data(), size_t(info_.images) * sizeof(ImagePlace));
    images_ = {device_pixels_.get(), {int(info_.images), info_.height, info_.width, info_.channels}, info_.type};
    labels_ = {device_classes_.get(), {int(info_.images), 1, 1, 1}, DType::i32};
}

Gather DataSet::batches(const Preprocessing& preprocessing, const Counters* counters, int64_t first) const {
    Gather g{};
    g.images = images_;
    g.labels = labels_;
    g.places = static_cast<const ImagePlace*>(device_places_.get());
    g.counters = counters;
    g.first = first;
    g.mean = preprocessing.mean;
    g.stddev = preprocessing.stddev;
    g.augment = preprocessing.plain();
    return g;
}

}  // namespace convoy
