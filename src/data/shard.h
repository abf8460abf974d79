// The data set on disk: DIR/train-00000-of-00005.h5 …, DIR/test-00000-of-00001.h5 and
// DIR/manifest.json. A shard holds /images uint8 (of vectors: float32) [n, height, width,
// channels], or /pixels of images that differ in size (data/shard_ragged.h), and /labels int32 [n],
// chunked and checksummed. It repeats what is common to the data set as root attributes. Nothing a
// file claims is believed before it is checked against the file's size. Its /pictures
// (data/shard_pictures.h) are for viewers, and may be missing.
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
    DType type = DType::u8;                ///< of a pixel's channel; f32: vectors, taken as they are
    std::vector<float> mean, stddev;       ///< per channel of the TRAINING split, in units of pixel / 255; f32: 0, 1
    std::vector<std::string> class_names;  ///< [classes]
    std::string manifest_sha256;           ///< identifies the data set, for checkpoints
    bool ragged = false;                   ///< images differ in size; height and width are those of the largest
    std::string codec;                     ///< ragged: "raw" or "jpeg"
    int64_t pixel_bytes = 0;               ///< ragged: of all images, decoded

    /// of one image; of ragged ones there is no such number
    size_t row_bytes() const { return size_t(height) * size_t(width) * size_t(channels) * size_of(type); }
    /// of all images, decoded
    size_t image_bytes() const { return ragged ? size_t(pixel_bytes) : size_t(images) * row_bytes(); }
    size_t label_bytes() const { return size_t(images) * sizeof(int32_t); }
};

/// One line of manifest.json.
struct ManifestEntry {
    std::string file, split;  ///< file name without folder
    int64_t images = 0, bytes = 0;
    std::string sha256;
};

/// "train-00000-of-00005.h5"
std::string shard_name(const std::string& split, int shard, int shards);
/// Whether `file` is named like a shard of some split; if so, takes the name apart.
bool parse_shard_name(const std::string& file, std::string& split, int& shard, int& shards);
/// Reads DIR/manifest.json. Throws Exit::bad_input if it is missing or malformed.
std::vector<ManifestEntry> read_manifest(const std::string& dir);

/// The pixels of one shard, for those who read them without HDF5.
struct ShardPixels {
    std::string path;
    int64_t first = 0, images = 0;             ///< rows [first, first + images) of the split
    hid_t file = H5I_INVALID_HID;              ///< the reader's, open until it opens another
    std::shared_ptr<const RaggedTable> table;  ///< of ragged images, else none
};

/// Opens every shard of one split read-only and checks them against each other and the manifest
/// before anything is allocated. Checksums are compared when rows are read; only `verify` reads
/// everything. Keeps a limited number of shards open, and reopens the others when they are read.
class SplitReader {
public:
    /// Throws Exit::bad_input: no such folder or split, a missing or surplus shard, a shard of
    /// another kind, size or shape.
    SplitReader(const std::string& dir, const std::string& split, size_t most_open = files_to_keep_open());
    const SplitInfo& info() const { return info_; }
    /// Reads rows [first, first + rows) of the concatenated shards, and only those: images [rows,
    /// height, width, channels] as bytes, ragged ones decoded and packed as places() has them;
    /// labels [rows]. Throws Exit::bad_input for a checksum mismatch, for a label outside [0,
    /// classes), for a number that is not finite, and for a file that cannot be decoded.
    void read(int64_t first, int64_t rows, uint8_t* images, int32_t* labels) const;
    /// The labels of these rows alone.
    void read_labels(int64_t first, int64_t rows, int32_t* labels) const;
    /// Of ragged images: where each lies if all are decoded and packed, [images].
    std::vector<ImagePlace> places() const;
    size_t shards() const { return shards_.size(); }
    ShardPixels pixels(size_t shard) const;

private:
    struct Shard {
        std::string path;
        int64_t first = 0, images = 0;               ///< rows [first, first + images) of the split
        int64_t first_byte = 0;                      ///< of its decoded pixels in the split's
        std::shared_ptr<const RaggedTable> table{};  ///< of ragged images, else none
    };
    struct OpenShard {
        size_t shard = 0;
        h5::Handle file, image_set{}, label_set{};
        std::unique_ptr<RaggedRows> ragged{};  ///< in place of image_set
    };
    void add_shard(const std::string& path, int shard, int shards);
    /// The shard's files; valid until another shard is opened.
    const OpenShard& opened(size_t shard) const;
    /// Closes the shard that was opened first, if there are as many as may be kept.
    void keep(OpenShard) const;
    /// Returns where the next rows go.
    uint8_t* read_images(size_t shard, int64_t first, int64_t rows, uint8_t* to) const;
    void check_images(Shard&, const OpenShard&, hsize_t labels);
    void check_ragged(Shard&, OpenShard&, hsize_t labels);
    void check_common(const h5::Handle& file, const std::string& path, int shard, int shards);

    SplitInfo info_;
    std::vector<Shard> shards_;
    size_t most_open_;
    mutable std::deque<OpenShard> open_;  ///< at most most_open_, in the order in which they were opened
};

/// Throws Exit::bad_input if training and test images differ in shape or classes.
void check_same_shape(const SplitInfo& train, const SplitInfo& test, const std::string& dir);

/// Writes `source` as a data set of `train_shards` training shards (other splits: one). Writes a
/// folder next to its destination and renames it at the end: the destination is complete or
/// untouched. Returns a line that says where what was there is kept (Destination::put_in_place),
/// else empty. Write failures are Exit::io.
std::string write_data_set(const Source& source, const Destination&, int train_shards);
std::string write_data_set(const Source& source, const std::string& dir, int train_shards, bool force);

/// Of all pixels of `split`. Vectors are taken as they are: 0 and 1.
PixelStatistics pixel_statistics(const Split& split);

}  // namespace convoy
