// "Stored bytes" are /images or /pixels as one sequence of bytes, in chunks of equal size.
#include "data/split_pieces.h"

#include <algorithm>
#include <cstring>

#include "base/file_limit.h"
#include "base/input_file.h"
#include "data/fletcher32.h"
#include "data/shard.h"
#include "data/shard_checks.h"
#include "data/shard_format.h"

namespace convoy {
namespace {

constexpr int64_t ragged_piece_bytes = 8 << 20;

}  // namespace

SplitPieces::SplitPieces(const SplitReader& reader)
    : type_(reader.info().type), row_bytes_(reader.info().ragged ? 0 : reader.info().row_bytes()) {
    std::vector<OpenFiles::File> files;
    for (size_t i = 0; i < reader.shards(); ++i) {
        const ShardPixels shard = reader.pixels(i);
        const char* set = shard.table ? "/pixels" : "/images";
        shards_.push_back({.path = shard.path,
                           .first = shard.first,
                           .images = shard.images,
                           .places = locate_chunks(shard.file, set, stored_type(type_), shard.path),
                           .table = shard.table});
        append_pieces(shards_.back());
        files.push_back({shard.path, size_of_input(shard.path, was_it_moved)});
    }
    files_ = std::make_unique<OpenFiles>(std::move(files), files_to_keep_open());
}

void SplitPieces::append_pieces(const Shard& shard) {
    const auto append = [&](int64_t from, int64_t end) {
        const size_t bytes = shard.table ? size_t(shard.table->decoded_before(end) - shard.table->decoded_before(from))
                                         : size_t(end - from) * row_bytes_;
        pieces_.push_back({shard.first + from, end - from, bytes});
    };
    const auto part = [&](int64_t row) {
        return shard.table ? shard.table->offset(row) / ragged_piece_bytes : row / shard.places.rows;
    };
    int64_t from = 0;
    for (int64_t row = 1; row < shard.images; ++row)
        if (part(row) != part(from)) {
            append(from, row);
            from = row;
        }
    append(from, shard.images);
}

size_t SplitPieces::shard_of(int64_t row) const {
    const auto after =
        std::upper_bound(shards_.begin(), shards_.end(), row, [](int64_t r, const Shard& s) { return r < s.first; });
    return size_t(after - shards_.begin()) - 1;
}

void SplitPieces::read(size_t i, uint8_t* to, Scratch& scratch) const {
    const Piece& piece = pieces_.at(i);
    const size_t which = shard_of(piece.first);
    const Shard& shard = shards_[which];
    const int64_t first = piece.first - shard.first, end = first + piece.rows;
    if (!shard.table) {
        read_stored(which, size_t(first) * row_bytes_, size_t(end) * row_bytes_, to, scratch);
        if (type_ == DType::f32) check_finite(to, first, piece.rows, row_bytes_, shard.path);
        return;
    }
    const size_t from_byte = size_t(shard.table->offset(first)), end_byte = size_t(shard.table->offset(end));
    if (!shard.table->holds_files()) return read_stored(which, from_byte, end_byte, to, scratch);
    scratch.files_.resize(end_byte - from_byte);
    read_stored(which, from_byte, end_byte, scratch.files_.data(), scratch);
    shard.table->decode(first, piece.rows, scratch.files_.data(), scratch.image_, to);
}

/// Reads stored bytes [from, end). Checks and copies each chunk while it lies in the CPU's cache.
void SplitPieces::read_stored(size_t shard, size_t from, size_t end, uint8_t* to, Scratch& scratch) const {
    const size_t bytes = shards_[shard].places.bytes;
    for (size_t chunk = from / bytes; chunk * bytes < end; ++chunk) {
        read_chunk(shard, chunk, scratch.chunk_);
        const size_t first = std::max(from, chunk * bytes), last = std::min(end, (chunk + 1) * bytes);
        std::memcpy(to, scratch.chunk_.data() + (first - chunk * bytes), last - first);
        to += last - first;
    }
}

void SplitPieces::read_chunk(size_t shard, size_t chunk, std::vector<uint8_t>& to) const {
    const Shard& of = shards_[shard];
    to.resize(of.places.bytes + fletcher32_bytes);
    const std::string wrong = files_->read(shard, of.places.addresses[chunk], to.size(), to.data());
    if (!wrong.empty()) fail_at(of, chunk, wrong);
    if (!matches_fletcher32(to.data(), of.places.bytes))
        fail_at(of, chunk, "does not match its checksum: the file is damaged; convert the data set again");
}

/// Throws an error that names the rows of the file that lie in the chunk, even in part.
void SplitPieces::fail_at(const Shard& shard, size_t chunk, const std::string& wrong) const {
    const int64_t from = int64_t(chunk * shard.places.bytes), end = from + int64_t(shard.places.bytes);
    const auto begins_at = [&](int64_t row) {
        return shard.table ? shard.table->offset(row) : row * int64_t(row_bytes_);
    };
    int64_t first = 0, last = shard.images - 1;
    while (begins_at(first + 1) <= from) ++first;
    while (begins_at(last) >= end) --last;
    fail(Exit::bad_input, shard.path + ": chunk " + std::to_string(chunk) + " of " +
                              (shard.table ? "/pixels" : "/images") + " (rows " + std::to_string(first) + " to " +
                              std::to_string(last) + ") " + wrong);
}

}  // namespace convoy
