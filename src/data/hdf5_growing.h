// Writes a data set whose number of rows is known only at its end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5.h"

namespace convoy::h5 {

/// A chunked data set with Fletcher-32. Each chunk is written as soon as it is full; the last one
/// may be partly full. If the rows do not fill the first chunk, the data set has one smaller chunk.
class GrowingSet {
public:
    /// Makes a data set of uint8 rows with shape `row`. If `row` is empty, a row is one byte.
    GrowingSet(hid_t file, const std::string& name, const std::vector<hsize_t>& row, hsize_t chunk_rows,
               const std::string& path);
    /// Appends rows [count, row]. Throws Exit::io.
    void append(const uint8_t* rows, size_t count);
    /// Writes the remaining rows. Call it once, last. At least one row must have been appended.
    void finish();
    /// Returns HDF5's handle of the data set, after finish().
    hid_t id() const { return set_; }

private:
    void create(hsize_t chunk_rows);
    void write();

    const hid_t file_;
    const std::string name_, path_;
    std::vector<hsize_t> dims_;
    size_t row_bytes_, chunk_bytes_;
    Handle set_;
    hsize_t rows_ = 0;             // rows written so far
    std::vector<uint8_t> buffer_;  // rows of the chunk that is not full yet
};

}  // namespace convoy::h5
