// Reads pieces of a split from any number of threads, without HDF5, which serves one at a time. A
// thread in HDF5 that waits for a disk would hold the lock that metrics and checkpoints need.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "data/chunk_places.h"
#include "data/image_file.h"
#include "data/open_files.h"
#include "data/shard_ragged.h"

namespace convoy {

class SplitReader;

/// Consecutive rows of one shard that are read at once.
struct Piece {
    int64_t first, rows;  ///< rows [first, first + rows) of the split
    size_t bytes;         ///< size of its decoded pixels, packed
};

class SplitPieces {
public:
    /// Uses HDF5 to find the offsets of all pixels in the files of `reader`. The reader may be
    /// closed afterwards. Throws Exit::bad_input as locate_chunks() does.
    explicit SplitPieces(const SplitReader& reader);

    /// Returns the pieces, in the order of the split. They depend on the data set alone: a piece is
    /// one chunk of /images, or the rows that begin in the same 8 MiB (four chunks) of /pixels.
    const std::vector<Piece>& all() const { return pieces_; }

    /// Buffers of one reading thread. They grow to the largest piece that it has read.
    class Scratch {
        friend class SplitPieces;
        std::vector<uint8_t> chunk_, files_;
        RgbImage image_;
    };
    /// Reads piece `i` to `to` [all()[i].bytes], as decoded pixels, packed as SplitReader::read()
    /// packs them. Compares all checksums. Any number of threads may call it, each with its own
    /// scratch; it does not use HDF5. Throws Exit::bad_input if a file was removed, truncated or
    /// replaced, for a checksum mismatch, and for rows that SplitReader::read() refuses. The
    /// message names file, data set, chunk, and rows of the file.
    void read(size_t i, uint8_t* to, Scratch&) const;

private:
    struct Shard {
        std::string path;
        int64_t first, images;  ///< rows [first, first + images) of the split
        ChunkPlaces places;
        std::shared_ptr<const RaggedTable> table;  ///< null unless images are ragged
    };
    void append_pieces(const Shard&);
    size_t shard_of(int64_t row) const;
    void read_stored(size_t shard, size_t from, size_t end, uint8_t* to, Scratch&) const;
    void read_chunk(size_t shard, size_t chunk, std::vector<uint8_t>& to) const;
    [[noreturn]] void fail_at(const Shard&, size_t chunk, const std::string& wrong) const;

    DType type_;
    size_t row_bytes_;  ///< 0 if images are ragged
    std::vector<Shard> shards_;
    std::vector<Piece> pieces_;
    std::unique_ptr<OpenFiles> files_;  ///< one per shard
};

}  // namespace convoy
