#include "supply/data_set.h"

#include <algorithm>
#include <climits>

#include "base/clock.h"
#include "comm/preflight.h"
#include "data/digest.h"
#include "data/split_pieces.h"
#include "plan/split.h"
#include "supply/partition.h"
#include "supply/stream.h"

namespace convoy {
namespace {

std::vector<ImagePlace> places_of(const SplitReader& reader) {
    return reader.info().ragged ? reader.places() : std::vector<ImagePlace>();
}

/// Returns the number of threads with which this rank reads a stream. On CPUs it is one, because
/// the cores compute.
int reading_threads(Comm& comm, const Backend& backend) {
    constexpr int most = 8;
    const int cores = comm.fair_threads();
    return backend.facts().synchronous ? 1 : std::clamp(cores, 1, most);
}

/// Returns the first row of each rank's share, and the number of rows; [ranks + 1].
std::vector<int64_t> shares_of(int64_t rows, int ranks) {
    std::vector<int64_t> first;
    for (int r = 0; r < ranks; ++r) first.push_back(share_of(rows, ranks, r).first);
    first.push_back(rows);
    return first;
}

/// Returns the SHA-256 of everything that decides where an image of the split lies in memory, and
/// of the statistics and class names.
std::string layout_of(const SplitReader& reader) {
    const SplitInfo& info = reader.info();
    std::vector<int64_t> numbers = {info.images,  info.height,    info.width,  info.channels,
                                    info.classes, int(info.type), info.ragged, info.pixel_bytes};
    for (const ImagePlace& place : places_of(reader))
        numbers.insert(numbers.end(), {int64_t(place.offset), place.height, place.width});
    Digest digest(Digest::Kind::sha256);
    digest.update(numbers.data(), numbers.size() * sizeof(int64_t));
    for (const std::vector<float>* of_channels : {&info.mean, &info.stddev})
        digest.update(of_channels->data(), of_channels->size() * sizeof(float));
    for (const std::string& text : info.class_names) digest.update(text.c_str(), text.size() + 1);
    return digest.hex();
}

/// Returns the SHA-256 of the pieces in which a stream reads a split.
std::string division_of(const SplitPieces& pieces) {
    std::vector<int64_t> numbers;
    for (const Piece& piece : pieces.all())
        numbers.insert(numbers.end(), {piece.first, piece.rows, int64_t(piece.bytes)});
    return digest_of(Digest::Kind::sha256, numbers.data(), numbers.size() * sizeof(int64_t));
}

}  // namespace

void check_same_split(Comm& comm, const SplitReader& reader) {
    std::string layout;
    comm.together([&] { layout = layout_of(reader); });
    const SplitInfo& info = reader.info();
    check_alike(comm, {{"the data set (SHA-256 of its manifest)", info.manifest_sha256},
                       {"the split " + info.split + " of the data set (SHA-256 of its images' sizes)", layout}});
}

SplitInfo first_images(const SplitReader& reader, int64_t most) {
    SplitInfo info = reader.info();
    if (most <= 0 || most >= info.images) return info;
    info.images = most;
    if (info.ragged) info.pixel_bytes = reader.places()[most].offset;
    return info;
}

DataSet::DataSet(Comm& comm, Backend& backend, const SplitReader& reader, int64_t most, const Placed& placed)
    : info_(first_images(reader, most)), shapes_(info_, places_of(reader)) {
    const auto start = Clock::now();
    if (placed.resident())
        read_all(comm, [&](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
            reader.read(first, rows, images, labels);
        });
    else
        store(comm, backend, reader, placed);
    bind(backend, placed, pixels_ ? pixels_->data() : nullptr, classes_->data());
    seconds_ = seconds_since(start);
}

DataSet::DataSet(Comm& comm, Backend& backend, const SplitInfo& info, const Read& read, std::vector<ImagePlace> places,
                 const Placed& placed)
    : info_(info), shapes_(info_, std::move(places)) {
    require(placed.resident(), "rows from elsewhere are read once");
    const auto start = Clock::now();
    read_all(comm, read);
    bind(backend, placed, pixels_->data(), classes_->data());
    seconds_ = seconds_since(start);
}

DataSet::DataSet(Backend& backend, const SplitInfo& info, const Placed& placed) : info_(info), shapes_(info_) {
    bind(backend, placed, nullptr, nullptr);
}

void DataSet::read_all(Comm& comm, const Read& read) {
    pixels_ = std::make_unique<Replicated>(comm, info_.image_bytes());
    auto* pixels = reinterpret_cast<uint8_t*>(pixels_->data());
    read_shares(comm, [&](int64_t first, int64_t rows, int32_t* labels) {
        read(first, rows, pixels + shapes_[first].offset, labels);
    });
    std::vector<size_t> offsets;
    for (const int64_t row : shares_of(info_.images, comm.size())) offsets.push_back(size_t(shapes_[row].offset));
    pixels_->complete(offsets);
}

void DataSet::read_shares(Comm& comm, const std::function<void(int64_t, int64_t, int32_t*)>& read) {
    classes_ = std::make_unique<Replicated>(comm, info_.label_bytes());
    auto* classes = reinterpret_cast<int32_t*>(classes_->data());
    const Share mine = share_of(info_.images, comm.size(), comm.rank());
    comm.together([&] {
        const Doing doing(comm.activity(), "reading the data set");
        require(info_.images <= INT_MAX, "SplitReader refuses splits whose rows no int can number");
        if (mine.count > 0) read(mine.first, mine.count, classes + mine.first);
    });
    std::vector<size_t> offsets;
    for (const int64_t row : shares_of(info_.images, comm.size())) offsets.push_back(size_t(row) * sizeof(int32_t));
    classes_->complete(offsets);
}

void DataSet::store(Comm& comm, Backend& backend, const SplitReader& reader, const Placed& placed) {
    read_shares(comm, [&](int64_t first, int64_t rows, int32_t* labels) { reader.read_labels(first, rows, labels); });
    if (placed.placement == Placement::partition) {
        const bool share = SharedBlock::may_share(comm, placed.node_bytes);
        store_ = std::make_unique<Partition>(comm, shapes_, share, [&](int64_t first, int64_t rows, uint8_t* images) {
            std::vector<int32_t> labels(static_cast<size_t>(rows));
            reader.read(first, rows, images, labels.data());
        });
        return;
    }
    std::shared_ptr<const SplitPieces> pieces;
    comm.together([&] { pieces = std::make_shared<SplitPieces>(reader); });
    check_alike(comm,
                {{"the split " + info_.split + " of the data set (SHA-256 of its pieces)", division_of(*pieces)}});
    StreamBlocks blocks(pieces, shapes_, placed.stream_block);
    const bool share = SharedBlock::may_share(comm, blocks.memory(comm.local_size(), comm.size()));
    store_ = std::make_unique<Stream>(comm, shapes_, share, std::move(blocks), reading_threads(comm, backend));
}

void DataSet::bind(Backend& backend, const Placed& placed, void* pixels, void* classes) {
    images_ = {nullptr, {int(info_.images), info_.height, info_.width, info_.channels}, info_.type};
    labels_ = {nullptr, {int(info_.images), 1, 1, 1}, DType::i32};
    if (!placed.resident()) return;
    device_pixels_ = placed.placement == Placement::node ? backend.mapped(pixels, info_.image_bytes())
                                                         : backend.resident(pixels, info_.image_bytes());
    device_classes_ = backend.resident(classes, info_.label_bytes());
    if (info_.ragged)
        device_places_ =
            backend.resident(const_cast<ImagePlace*>(shapes_.places()), size_t(info_.images) * sizeof(ImagePlace));
    images_.data = device_pixels_.get();
    labels_.data = device_classes_.get();
    resident_ = true;
}

std::vector<uint8_t> DataSet::first_pixels(Comm& comm, int64_t rows) const {
    rows = std::min(rows, info_.images);
    if (store_) return first_rows(comm, *store_, shapes_, rows);
    const char* pixels = pixels_->data();
    return {pixels, pixels + shapes_[rows].offset};
}

std::unique_ptr<Supply> DataSet::supply(Comm& comm, Backend& backend, const BatchOrder& batches,
                                        Supply::Shown shown) const {
    if (resident_) return nullptr;
    if (store_) store_->check_batch(std::min(batches.global_batch, info_.images));
    const auto* labels = classes_ ? reinterpret_cast<const int32_t*>(classes_->data()) : nullptr;
    return std::make_unique<Supply>(comm, backend, store_.get(), shapes_, labels, batches, std::move(shown));
}

Gather DataSet::batches(const Preprocessing& preprocessing, const Counters* counters, int64_t first,
                        const Supply* supply) const {
    Gather g{};
    g.images = images_;
    g.labels = labels_;
    g.places = static_cast<const ImagePlace*>(device_places_.get());
    g.counters = counters;
    g.first = first;
    g.mean = preprocessing.mean;
    g.stddev = preprocessing.stddev;
    g.augment = preprocessing.plain();
    if (supply) g.staged = supply->batch();
    return g;
}

}  // namespace convoy
