// Rows of a shard whose images differ in size:
//   /pixels  uint8 [bytes]    the rows one after the other, in chunks of 2 MiB
//   /offset  int64 [n + 1]    row i is bytes [offset[i], offset[i + 1]) of /pixels
//   /height, /width  int32 [n];  /labels  int32 [n]
// The root attribute `codec` tells what a row is. `raw`: pixels [height, width, 3]. `jpeg`: the
// unchanged file, in any format that Convoy reads.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/image_place.h"
#include "data/hdf5.h"
#include "data/image_file.h"

namespace convoy {

/// Offsets and sizes of the rows of one shard, checked against the file's size. It does not use
/// HDF5 after construction, so any number of threads may use it.
class RaggedTable {
public:
    /// Throws Exit::bad_input if sizes contradict each other, or if the file cannot hold them.
    RaggedTable(hid_t file, const std::string& codec, const std::string& path);

    int64_t rows() const { return int64_t(heights_.size()); }
    /// Returns the bytes of the decoded pixels of rows [0, row).
    int64_t decoded_before(int64_t row) const { return decoded_[row]; }
    int height(int64_t row) const { return heights_[row]; }
    int width(int64_t row) const { return widths_[row]; }
    /// Returns the byte offset of `row` in /pixels. For row rows() it is the end of the last row.
    int64_t offset(int64_t row) const { return offsets_[row]; }
    /// True if rows are files, which must be decoded.
    bool holds_files() const { return files_; }
    /// Decodes the files of rows [first, first + count), which `files` holds one after the other,
    /// to `to`, packed. Reuses the memory of `image`. Throws Exit::bad_input if a file cannot be
    /// decoded or has another size than the table says.
    void decode(int64_t first, int64_t count, const uint8_t* files, RgbImage& image, uint8_t* to) const;

private:
    std::string path_;
    bool files_;                             // codec jpeg
    std::vector<int64_t> offsets_;           // [rows + 1], byte offsets in /pixels
    std::vector<int64_t> decoded_;           // [rows + 1], byte offsets in the decoded pixels
    std::vector<int32_t> heights_, widths_;  // [rows]
};

/// Reads ranges of rows of one shard. Reads whole chunks, even for a single row.
class RaggedRows {
public:
    /// Throws what RaggedTable does.
    RaggedRows(hid_t file, const std::string& codec, const std::string& path);
    /// Reopens a shard, reusing its table.
    RaggedRows(hid_t file, std::shared_ptr<const RaggedTable>, const std::string& path);

    std::shared_ptr<const RaggedTable> table() const { return table_; }
    /// Reads rows [first, first + count) as decoded pixels, packed. Throws Exit::bad_input for a
    /// checksum mismatch, and what RaggedTable::decode() throws.
    void read(int64_t first, int64_t count, uint8_t* to) const;

private:
    void read_files(int64_t first, int64_t count, uint8_t* to) const;

    std::string path_;
    std::shared_ptr<const RaggedTable> table_;
    h5::Handle pixels_;
};

}  // namespace convoy
