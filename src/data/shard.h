// The data set on disk: DIR/train-00000-of-00005.h5 …, DIR/test-00000-of-00001.h5 and
// DIR/manifest.json. A shard holds /labels int32 [n] and /images uint8 [n, height, width,
// channels], chunked and checksummed. Vectors are float32; images that differ in size are in
// /pixels (data/shard_ragged.h). Root attributes repeat the properties of the whole data set.
// Claimed sizes are checked against the file's size before memory is allocated. /pictures
// (data/shard_pictures.h) is optional.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/file_limit.h"
#include "base/image_place.h"
#include "data/decode.h"
#include "data/hdf5.h"
#include "data/pixel_counts.h"
#include "data/shard_ragged.h"

namespace convoy {

class Destination;

struct SplitInfo {
    std::string split;   ///< "train" or "test"
    int64_t images = 0;  ///< rows of all shards together
    int height = 0, width = 0, channels = 0, classes = 0;
    DType type = DType::u8;                ///< type of a channel; f32: vectors, which are not normalised
    std::vector<float> mean, stddev;       ///< [channels] of the TRAINING split, in units of pixel / 255; f32: 0, 1
    std::vector<std::string> class_names;  ///< [classes]
    std::string manifest_sha256;           ///< identifies the data set, for checkpoints
    bool ragged = false;                   ///< images differ in size; height and width are those of the largest
    std::string codec;                     ///< ragged: "raw" or "jpeg"
    int64_t pixel_bytes = 0;               ///< ragged: bytes of all images, decoded

    /// Returns the bytes of one image. Not for ragged images, which differ.
    size_t row_bytes() const { return size_t(height) * size_t(width) * size_t(channels) * size_of(type); }
    /// Returns the bytes of all images, decoded.
    size_t image_bytes() const { return ragged ? size_t(pixel_bytes) : size_t(images) * row_bytes(); }
    size_t label_bytes() const { return size_t(images) * sizeof(int32_t); }
};

/// One line of manifest.json.
struct ManifestEntry {
    std::string file, split;  ///< file name without folder
    int64_t images = 0, bytes = 0;
    std::string sha256;
};

/// Returns a name such as "train-00000-of-00005.h5".
std::string shard_name(const std::string& split, int shard, int shards);
/// Parses the name of a shard. False if `file` is not such a name.
bool parse_shard_name(const std::string& file, std::string& split, int& shard, int& shards);
/// Reads DIR/manifest.json. Throws Exit::bad_input if it is missing or malformed.
std::vector<ManifestEntry> read_manifest(const std::string& dir);

/// The location of one shard's pixels, for reading them without HDF5.
struct ShardPixels {
    std::string path;
    int64_t first = 0, images = 0;             ///< rows [first, first + images) of the split
    hid_t file = H5I_INVALID_HID;              ///< belongs to the reader; open until it opens another shard
    std::shared_ptr<const RaggedTable> table;  ///< null unless images are ragged
};

/// Opens every shard of one split read-only, and checks them against each other and the manifest
/// before memory is allocated for them. Checksums are compared when rows are read, so the
/// constructor does not notice damaged pixels. Keeps a limited number of shards open, and reopens
/// the others when they are read.
class SplitReader {
public:
    /// Throws Exit::bad_input for a missing folder or split, a missing or surplus shard, or a shard
    /// of another kind, size or shape.
    SplitReader(const std::string& dir, const std::string& split, size_t most_open = files_to_keep_open());
    const SplitInfo& info() const { return info_; }
    /// Reads rows [first, first + rows) of the concatenated shards: images [rows, height, width,
    /// channels] as bytes, and labels [rows]. Ragged images are decoded and packed as places()
    /// says. Throws Exit::bad_input for a checksum mismatch, a label outside [0, classes), a
    /// non-finite number, or a file that cannot be decoded.
    void read(int64_t first, int64_t rows, uint8_t* images, int32_t* labels) const;
    /// Reads only the labels of these rows.
    void read_labels(int64_t first, int64_t rows, int32_t* labels) const;
    /// Returns the place of each ragged image among the decoded pixels of all, packed, [images].
    std::vector<ImagePlace> places() const;
    size_t shards() const { return shards_.size(); }
    ShardPixels pixels(size_t shard) const;

private:
    struct Shard {
        std::string path;
        int64_t first = 0, images = 0;               ///< rows [first, first + images) of the split
        int64_t first_byte = 0;                      ///< offset of its pixels in the decoded split
        std::shared_ptr<const RaggedTable> table{};  ///< null unless images are ragged
    };
    struct OpenShard {
        size_t shard = 0;
        h5::Handle file, image_set{}, label_set{};
        std::unique_ptr<RaggedRows> ragged{};  ///< replaces image_set if images are ragged
    };
    void add_shard(const std::string& path, int shard, int shards);
    /// Returns the open shard, opening it if necessary; valid until another shard is opened.
    const OpenShard& opened(size_t shard) const;
    /// Keeps a shard open. Closes the one that was opened first if most_open_ are open.
    void keep(OpenShard) const;
    /// Reads rows of one shard to `to`. Returns the end of what was written.
    uint8_t* read_images(size_t shard, int64_t first, int64_t rows, uint8_t* to) const;
    void check_images(Shard&, const OpenShard&, hsize_t labels);
    void check_ragged(Shard&, OpenShard&, hsize_t labels);
    void check_common(const h5::Handle& file, const std::string& path, int shard, int shards);

    SplitInfo info_;
    std::vector<Shard> shards_;
    size_t most_open_;
    mutable std::deque<OpenShard> open_;  ///< at most most_open_, in the order in which they were opened
};

/// Throws Exit::bad_input if training and test images differ in type, shape, classes or statistics.
void check_same_shape(const SplitInfo& train, const SplitInfo& test, const std::string& dir);

/// Writes `source` as a data set: `train_shards` training shards, and one shard for each other
/// split. Writes a folder next to its destination and renames it at the end, so the destination is
/// complete or untouched. Returns what Destination::put_in_place() returned. Throws Exit::io if
/// writing fails.
std::string write_data_set(const Source& source, const Destination&, int train_shards);
std::string write_data_set(const Source& source, const std::string& dir, int train_shards, bool force);

/// Returns mean and deviation of all pixels of `split`. For vectors, which are not normalised,
/// returns 0 and 1.
PixelStatistics pixel_statistics(const Split& split);

}  // namespace convoy
