// Rows of a shard whose images differ in size:
//   /pixels  uint8 [bytes]    the rows one after the other, in chunks of 2 MiB
//   /offset  int64 [n + 1]    row i is /pixels[offset[i]] to before offset[i + 1]
//   /height, /width  int32 [n];  /labels  int32 [n]
// The root attribute `codec` says what a row is: `raw`, pixels [height, width, 3]; `jpeg`, the file
// as it was: JPEG, or a PNG that was among them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/image_place.h"
#include "data/hdf5.h"
#include "data/image_file.h"

namespace convoy {

/// Where the rows of one shard lie, and how large they are, checked against the file's size. Holds
/// nothing of HDF5's: any number of threads may use it.
class RaggedTable {
public:
    /// Throws Exit::bad_input: sizes that contradict one another, or that the file cannot hold.
    RaggedTable(hid_t file, const std::string& codec, const std::string& path);

    int64_t rows() const { return int64_t(heights_.size()); }
    /// Bytes of the decoded pixels of rows [0, row).
    int64_t decoded_before(int64_t row) const { return decoded_[size_t(row)]; }
    int height(int64_t row) const { return heights_[size_t(row)]; }
    int width(int64_t row) const { return widths_[size_t(row)]; }
    /// Where `row` begins in /pixels, in bytes; of rows(): where the last one ends.
    int64_t offset(int64_t row) const { return offsets_[size_t(row)]; }
    /// Whether a row is a file, to be decoded.
    bool holds_files() const { return files_; }
    /// Decodes rows [first, first + count), which lie in `files` one after the other, to `to`,
    /// packed; `image` is used again. Throws Exit::bad_input: a file that cannot be decoded or has
    /// another size than it claims.
    void decode(int64_t first, int64_t count, const uint8_t* files, RgbImage& image, uint8_t* to) const;

private:
    std::string path_;
    bool files_;                             // codec jpeg
    std::vector<int64_t> offsets_;           // [rows + 1], in /pixels
    std::vector<int64_t> decoded_;           // [rows + 1], of decoded pixels
    std::vector<int32_t> heights_, widths_;  // [rows]
};

/// The rows of one shard. Reads them in ranges: a chunk of which one row is wanted is read whole.
class RaggedRows {
public:
    /// Throws what RaggedTable does.
    RaggedRows(hid_t file, const std::string& codec, const std::string& path);
    /// For a shard that is reopened: reuses its table.
    RaggedRows(hid_t file, std::shared_ptr<const RaggedTable>, const std::string& path);

    const RaggedTable& table() const { return *table_; }
    std::shared_ptr<const RaggedTable> shared_table() const { return table_; }
    /// Decoded pixels of rows [first, first + count), packed. Throws Exit::bad_input: a checksum
    /// that does not match, a file that cannot be decoded or has another size than it claims.
    void read(int64_t first, int64_t count, uint8_t* to) const;

private:
    void read_files(int64_t first, int64_t count, uint8_t* to) const;

    std::string path_;
    std::shared_ptr<const RaggedTable> table_;
    h5::Handle pixels_;
};

}  // namespace convoy
