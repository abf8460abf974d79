// Rows of a shard whose images differ in size:
//   /pixels  uint8 [bytes]    the rows one after the other, in chunks of 2 MiB
//   /offset  int64 [n + 1]    row i is /pixels[offset[i]] to before offset[i + 1]
//   /height, /width  int32 [n];  /labels  int32 [n]
// The root attribute `codec` says what a row is: `raw`, pixels [height, width, 3]; `jpeg`, the file
// as it was: JPEG, or a PNG that was among them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/image_place.h"
#include "data/hdf5.h"
#include "data/image_file.h"

namespace convoy {

/// The rows of one shard, whose sizes were checked against the file's. Reads them in ranges: a
/// chunk of which one row is wanted is read whole.
class RaggedRows {
public:
    /// Throws Exit::bad_input: sizes that contradict one another, or that the file cannot hold.
    RaggedRows(hid_t file, const std::string& codec, const std::string& path);

    int64_t rows() const { return int64_t(heights_.size()); }
    /// Bytes of the decoded pixels of rows [0, row).
    int64_t decoded_before(int64_t row) const { return decoded_[size_t(row)]; }
    int height(int64_t row) const { return heights_[size_t(row)]; }
    int width(int64_t row) const { return widths_[size_t(row)]; }
    /// Decoded pixels of rows [first, first + count), packed. Throws Exit::bad_input: a checksum
    /// that does not match, a file that cannot be decoded or has another size than it claims.
    void read(int64_t first, int64_t count, uint8_t* to) const;

private:
    void read_files(int64_t first, int64_t count, uint8_t* to) const;

    std::string path_;
    bool files_;                             // codec jpeg
    std::vector<int64_t> offsets_;           // [rows + 1], in /pixels
    std::vector<int64_t> decoded_;           // [rows + 1], of decoded pixels
    std::vector<int32_t> heights_, widths_;  // [rows]
    h5::Handle pixels_;
};

}  // namespace convoy
