// A data set whose number of rows is known only at its end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5.h"

namespace convoy::h5 {

/// Chunked, with Fletcher-32. Chunks are written whole, as they are full; the last one may be full
/// in part. What does not fill even the first gives a set of one smaller chunk.
class GrowingSet {
public:
    /// Makes a data set of uint8 rows [row]; if `row` is empty, of single bytes.
    GrowingSet(hid_t file, const std::string& name, const std::vector<hsize_t>& row, hsize_t chunk_rows,
               const std::string& path);
    /// Appends rows [count, row]. Throws Exit::io.
    void append(const uint8_t* rows, size_t count);
    /// Writes what is left; call once, last. There must have been a row.
    void finish();
    /// Returns HDF5's handle of the data set, once it is finished.
    hid_t id() const { return set_; }

private:
    void create(hsize_t chunk_rows);
    void write();

    const hid_t file_;
    const std::string name_, path_;
    std::vector<hsize_t> dims_;
    size_t row_bytes_, chunk_bytes_;
    Handle set_;
    hsize_t rows_ = 0;             // written
    std::vector<uint8_t> buffer_;  // of the chunk that is not full
};

}  // namespace convoy::h5
