// Pieces of a split, read by any number of threads without HDF5: it serves one thread at a time,
// and a file system that hangs would hold the lock that metrics and checkpoints need.
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

/// A run of rows of one shard that is read at once.
struct Piece {
    int64_t first, rows;  ///< of the split
    size_t bytes;         ///< of its decoded pixels, packed
};

class SplitPieces {
public:
    /// Finds where the pixels of every row lie in the files of `reader`, by HDF5; `reader` may be
    /// closed then. Throws Exit::bad_input, as locate_chunks does.
    explicit SplitPieces(const SplitReader& reader);

    /// Of the data set alone, in the order of the split: one piece is one chunk of /images, or the
    /// rows that begin in the same 8 MiB (four chunks) of /pixels.
    const std::vector<Piece>& all() const { return pieces_; }

    /// What a thread reads with. Grows to the largest piece that it has read.
    class Scratch {
        friend class SplitPieces;
        std::vector<uint8_t> chunk_, files_;
        RgbImage image_;
    };
    /// Decoded pixels of piece `i`, packed as SplitReader::read packs them, to `to`
    /// [all()[i].bytes]. Any number of threads may call it, each with its own scratch; HDF5 is not
    /// called. Compares every checksum. Throws Exit::bad_input naming file, data set, chunk and
    /// rows: a file that was removed, truncated or replaced, a chunk that does not match its
    /// checksum, and what SplitReader::read finds wrong with rows. Rows are of the file.
    void read(size_t i, uint8_t* to, Scratch&) const;

private:
    struct Shard {
        std::string path;
        int64_t first, images;  ///< rows [first, first + images) of the split
        ChunkPlaces places;
        std::shared_ptr<const RaggedTable> table;  ///< of ragged images, else none
    };
    void append_pieces(const Shard&);
    size_t shard_of(int64_t row) const;
    void read_stored(size_t shard, size_t from, size_t end, uint8_t* to, Scratch&) const;
    void read_chunk(size_t shard, size_t chunk, std::vector<uint8_t>& to) const;
    [[noreturn]] void fail_at(const Shard&, size_t chunk, const std::string& wrong) const;

    DType type_;
    size_t row_bytes_;  ///< 0 of ragged images
    std::vector<Shard> shards_;
    std::vector<Piece> pieces_;
    std::unique_ptr<OpenFiles> files_;  ///< [shards]
};

}  // namespace convoy
