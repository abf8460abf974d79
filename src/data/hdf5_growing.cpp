#include "data/hdf5_growing.h"

#include <algorithm>

namespace convoy::h5 {

GrowingSet::GrowingSet(hid_t file, const std::string& name, const std::vector<hsize_t>& row, hsize_t chunk_rows,
                       const std::string& path)
    : file_(file), name_(name), path_(path), dims_(1, 0), row_bytes_(1) {
    dims_.insert(dims_.end(), row.begin(), row.end());
    for (const hsize_t side : row) row_bytes_ *= side;
    chunk_bytes_ = row_bytes_ * chunk_rows;
    buffer_.reserve(chunk_bytes_);
}

void GrowingSet::create(hsize_t chunk_rows) {
    std::vector<hsize_t> most = dims_, chunk = dims_;
    most[0] = H5S_UNLIMITED;
    chunk[0] = chunk_rows;
    const int rank = int(dims_.size());
    const Handle space(H5Screate_simple(rank, dims_.data(), most.data())), layout(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(layout, rank, chunk.data());
    H5Pset_fletcher32(layout);
    H5Pset_obj_track_times(layout, false);
    set_ = Handle(H5Dcreate2(file_, name_.c_str(), H5T_STD_U8LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    if (!set_.valid()) fail(Exit::io, path_ + ": cannot create " + name_ + because());
}

void GrowingSet::append(const uint8_t* rows, size_t count) {
    for (size_t left = count * row_bytes_; left > 0;) {
        const size_t fits = std::min(left, chunk_bytes_ - buffer_.size());
        buffer_.insert(buffer_.end(), rows, rows + fits);
        rows += fits;
        left -= fits;
        if (buffer_.size() == chunk_bytes_) write();
    }
}

void GrowingSet::write() {
    const hsize_t count = buffer_.size() / row_bytes_;
    if (count == 0) return;
    if (!set_.valid()) create(count);
    dims_[0] = rows_ + count;
    if (H5Dset_extent(set_, dims_.data()) < 0)
        fail(Exit::io, path_ + ": cannot grow " + name_ + because() + "; is the disk full?");
    write_rows(set_, H5T_NATIVE_UINT8, rows_, count, buffer_.data(), path_);
    rows_ += count;
    buffer_.clear();
}

void GrowingSet::finish() { write(); }

}  // namespace convoy::h5
