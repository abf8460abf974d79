// Measures how fast a split is read from the page cache. `convoy_reading FOLDER GIB ROUNDS` makes a
// data set of that size in FOLDER. It prints "WAY THREADS SECONDS BYTES IMAGES" for every way; the
// ways alternate. A round before the first is not printed. bench_data.py makes a table of the
// output.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/version.h"
#include "data/fletcher32.h"
#include "data/shard.h"
#include "data/split_pieces.h"

namespace convoy {
namespace {

constexpr int side = 224, channels = 3, shards = 4;
constexpr size_t window_bytes = 64 << 20;  // pieces are copied here like into a batch, so they leave the cache

/// Returns images of noise; the test split has one.
Split noise(const std::string& name, int64_t images) {
    const auto read = [](int64_t first, int64_t rows, uint8_t* to, int32_t* labels) {
        const size_t row_bytes = size_t(side) * side * channels;
        uint64_t state = uint64_t(first) * 2 + 1;
        for (size_t at = 0; at < size_t(rows) * row_bytes; at += sizeof state) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            std::memcpy(to + at, &state, sizeof state);
        }
        std::fill_n(labels, rows, 0);
    };
    return {name, images, side, side, channels, read};
}

void make_set(const std::string& dir, double gib) {
    const auto images = int64_t(gib * double(1 << 30) / (side * side * channels));
    Source source;
    source.splits = {noise("train", std::max<int64_t>(images, shards)), noise("test", 1)};
    source.class_names = source.files = source.sha256 = {"noise"};
    write_data_set(source, dir, shards, true);
}

/// Address of a chunk in a file, and its bytes with the checksum.
struct Chunk {
    int file;
    uint64_t address;
    size_t bytes;
};

/// Every way to read the whole split once.
class Reading {
public:
    explicit Reading(const std::string& dir) : reader_(dir, "train"), pieces_(reader_) {
        for (size_t i = 0; i < reader_.shards(); ++i) {
            const ShardPixels shard = reader_.pixels(i);
            const int file = ::open(shard.path.c_str(), O_RDONLY | O_CLOEXEC);
            const ChunkPlaces places = locate_chunks(shard.file, "/images", H5T_STD_U8LE, shard.path);
            for (const uint64_t address : places.addresses)
                chunks_.push_back({file, address, places.bytes + fletcher32_bytes});
        }
    }
    const SplitInfo& info() const { return reader_.info(); }

    void raw(int threads) {
        in_parallel(threads, chunks_.size(), [&](size_t i, uint8_t* to, SplitPieces::Scratch&) {
            const Chunk& chunk = chunks_[i];
            const ssize_t got = ::pread(chunk.file, to, chunk.bytes, off_t(chunk.address));
            require(got == ssize_t(chunk.bytes), "a chunk is read at once");
        });
    }
    void by_hdf5(int) {
        std::vector<int32_t> labels(size_t(reader_.info().images));
        in_parallel(1, pieces_.all().size(), [&](size_t i, uint8_t* to, SplitPieces::Scratch&) {
            const Piece& piece = pieces_.all()[i];
            reader_.read(piece.first, piece.rows, to, labels.data() + piece.first);
        });
    }
    void by_pieces(int threads) {
        in_parallel(threads, pieces_.all().size(),
                    [&](size_t i, uint8_t* to, SplitPieces::Scratch& scratch) { pieces_.read(i, to, scratch); });
    }
    /// Computes one checksum per chunk, but always of the same chunk, which is in the cache.
    void checksums(int) {
        std::vector<uint8_t> chunk(chunks_.at(0).bytes, 1);
        for (size_t i = 0; i < chunks_.size(); ++i) {
            chunk[0] = uint8_t(i);  // otherwise the compiler might compute only one
            sums_ += fletcher32(chunk.data(), chunk.size() - fletcher32_bytes);
        }
    }

private:
    using Read = std::function<void(size_t i, uint8_t* to, SplitPieces::Scratch&)>;

    /// Calls read(i, …) for i in [0, count), each on the next free thread.
    void in_parallel(int threads, size_t count, const Read& read) {
        windows_.resize(std::max(windows_.size(), size_t(threads)));
        const size_t most = chunks_.at(0).bytes;
        std::atomic<size_t> next = 0;
        const auto work = [&](size_t t) {
            SplitPieces::Scratch scratch;
            windows_[t].resize(window_bytes);
            size_t at = 0;
            for (size_t i = next++; i < count; i = next++) {
                read(i, windows_[t].data() + at, scratch);
                at = at + 2 * most <= window_bytes ? at + most : 0;
            }
        };
        std::vector<std::jthread> others;
        for (int t = 1; t < threads; ++t) others.emplace_back(work, size_t(t));
        work(0);
    }

    SplitReader reader_;
    SplitPieces pieces_;
    std::vector<Chunk> chunks_;
    std::vector<std::vector<uint8_t>> windows_;  // [threads][window_bytes]
    std::atomic<uint32_t> sums_ = 0;
};

/// Returns 1, 2, 4, … and the number of cores.
std::vector<int> numbers_of_threads() {
    const int cores = int(std::max(1u, std::thread::hardware_concurrency()));  // those that this process may use
    std::vector<int> numbers;
    for (int threads = 1; threads < cores; threads *= 2) numbers.push_back(threads);
    numbers.push_back(cores);
    return numbers;
}

struct Way {
    const char* name;
    void (Reading::*read)(int threads);
    int threads;
};

void measure(const std::string& dir, int rounds) {
    Reading reading(dir);
    std::vector<Way> ways = {{"hdf5", &Reading::by_hdf5, 1}, {"checksums", &Reading::checksums, 1}};
    for (const int threads : numbers_of_threads()) {
        ways.push_back({"raw", &Reading::raw, threads});
        ways.push_back({"pieces", &Reading::by_pieces, threads});
    }
    const SplitInfo& info = reading.info();
    for (int round = 0; round <= rounds; ++round) {
        for (const Way& way : ways) {
            const Clock::time_point start = Clock::now();
            (reading.*way.read)(way.threads);
            const double seconds = seconds_since(start);
            if (round == 0) continue;
            std::printf("%s %d %.6f %zu %lld\n", way.name, way.threads, seconds, info.image_bytes(),
                        static_cast<long long>(info.images));
        }
        std::reverse(ways.begin(), ways.end());
        std::fflush(stdout);
    }
}

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: convoy_reading FOLDER GIB ROUNDS\n");
        return int(convoy::Exit::usage);
    }
    try {
        const std::string dir = std::string(argv[1]) + "/set";
        convoy::make_set(dir, std::atof(argv[2]));
        std::printf("Convoy %s %s, HDF5 %s\n", convoy::version, convoy::commit(),
                    convoy::h5::library_version().c_str());
        convoy::measure(dir, std::atoi(argv[3]));
    } catch (const convoy::Error& error) {
        std::fprintf(stderr, "convoy_reading: %s\n", error.what());
        return int(error.code);
    }
    return 0;
}
