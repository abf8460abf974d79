// Pieces of a split: their rows, compared with HDF5's own tables; their content, compared with
// SplitReader's; and messages about files that were damaged since.
#include "data/split_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "data/shard.h"
#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

/// Returns an image of noise, from `side` to twice that a side; the fifth has `large` pixels a
/// side.
RgbImage noise(int i, int side, int large) {
    const int h = i == 5 ? large : side + i * 37 % side, w = i == 5 ? large : side + i * 53 % side;
    RgbImage image{h, w, Bytes(size_t(h) * size_t(w) * 3)};
    uint32_t state = uint32_t(i) + 1;
    for (uint8_t& byte : image.pixels) {
        state = state * 1664525 + 1013904223;
        byte = uint8_t(state >> 24);
    }
    return image;
}

/// Makes a data set of one kind, with two training shards and a test shard of one chunk. Those of
/// noise have several chunks per piece and several pieces per shard, and some rows lie in two of
/// each. An image of 2400x2400 pixels takes more than two pieces' bytes.
void make_set(const std::string& kind, const std::string& dir) {
    if (kind == "images") write_data_set(make_synthetic({301, 40, 64, 64, 3, 10, 1}), dir, 2, false);
    if (kind == "small_images") write_data_set(make_synthetic({60, 20, 8, 8, 3, 10, 1}), dir, 2, false);
    if (kind == "vectors") write_data_set(make_normal({2001, 30, 1, 50, 10, 10, 1}), dir, 2, false);
    if (kind == "raw") make_ragged(dir, ImageLayout::raw, 40, [](int i) { return noise(i, 300, 2400); });
    if (kind == "jpeg") make_ragged(dir, ImageLayout::jpeg, 40, [](int i) { return noise(i, 500, 900); });
    if (kind == "small_raw") make_ragged(dir, ImageLayout::raw);
    if (kind == "small_jpeg") make_ragged(dir, ImageLayout::jpeg);
}

/// Returns such a set, which is made once and never changed.
std::string set_of(const std::string& kind) {
    static std::map<std::string, std::unique_ptr<TempDir>> sets;
    std::unique_ptr<TempDir>& dir = sets[kind];
    if (!dir) {
        dir = std::make_unique<TempDir>();
        make_set(kind, dir->path("set"));
    }
    return dir->path("set");
}

Bytes read_by_hdf5(const SplitReader& reader) {
    Bytes pixels(reader.info().image_bytes());
    std::vector<int32_t> labels(size_t(reader.info().images));
    reader.read(0, reader.info().images, pixels.data(), labels.data());
    return pixels;
}

/// Layout of a shard's pixels, according to HDF5.
struct Stored {
    int64_t images;
    int64_t chunk_bytes;
    std::vector<int64_t> begins;  ///< [images + 1], bytes of /images or /pixels before a row
    std::vector<size_t> decoded;  ///< [images], bytes
};

Stored stored(const std::string& path) {
    const h5::Handle file = h5::open(path);
    const bool ragged = h5::has(file, "/pixels");
    const h5::Handle set = h5::open_dataset(file, ragged ? "/pixels" : "/images", path),
                     layout(H5Dget_create_plist(set)), space(H5Dget_space(set)), type(H5Dget_type(set));
    hsize_t dims[4] = {1, 1, 1, 1}, chunk[4] = {1, 1, 1, 1};
    H5Sget_simple_extent_dims(space, dims, nullptr);
    H5Pget_chunk(layout, 4, chunk);
    const auto row = int64_t(dims[1] * dims[2] * dims[3] * H5Tget_size(type));
    Stored s{int64_t(dims[0]), int64_t(chunk[0]) * row, {}, {}};
    if (!ragged) {
        for (int64_t i = 0; i <= s.images; ++i) s.begins.push_back(i * row);
        s.decoded.assign(size_t(s.images), size_t(row));
        return s;
    }
    s.begins.resize(h5::extent(file, "/offset", path).dims[0]);
    s.images = int64_t(s.begins.size()) - 1;
    std::vector<int32_t> h(static_cast<size_t>(s.images)), w = h;
    const hsize_t rows = hsize_t(s.images);
    h5::read_rows(h5::open_dataset(file, "/offset", path), H5T_NATIVE_INT64, 0, rows + 1, s.begins.data(), path);
    h5::read_rows(h5::open_dataset(file, "/height", path), H5T_NATIVE_INT32, 0, rows, h.data(), path);
    h5::read_rows(h5::open_dataset(file, "/width", path), H5T_NATIVE_INT32, 0, rows, w.data(), path);
    for (size_t i = 0; i < h.size(); ++i) s.decoded.push_back(size_t(h[i]) * size_t(w[i]) * 3);
    return s;
}

/// Returns the bytes of chunk `i` in the file, with the checksum, where HDF5 finds them.
std::string chunk_of(const std::string& path, size_t i) {
    const h5::Handle file = h5::open(path);
    const h5::Handle set = h5::open_dataset(file, h5::has(file, "/pixels") ? "/pixels" : "/images", path),
                     layout(H5Dget_create_plist(set));
    hsize_t first[4] = {}, bytes = 0;
    H5Pget_chunk(layout, 4, first);
    first[0] *= i;
    first[1] = first[2] = first[3] = 0;
    H5Dget_chunk_storage_size(set, first, &bytes);
    std::string chunk(bytes, '\0');
    uint32_t skipped = 0;
    EXPECT_GE(H5Dread_chunk(set, H5P_DEFAULT, first, &skipped, chunk.data()), 0);
    return chunk;
}

class SplitPiecesOf : public testing::TestWithParam<std::string> {
protected:
    const std::string data_ = set_of(GetParam());
    const char* name_ = GetParam().ends_with("raw") || GetParam().ends_with("jpeg") ? "/pixels" : "/images";
};

TEST_P(SplitPiecesOf, PartitionTheSplitByItsChunks) {
    const int64_t window = name_ == std::string("/pixels") ? 8 << 20 : 0;
    std::vector<std::tuple<int64_t, int64_t, size_t>> wanted;
    int64_t before = 0;
    for (const char* shard : {"/train-00000-of-00002.h5", "/train-00001-of-00002.h5"}) {
        const Stored s = stored(data_ + shard);
        int64_t last = -1;
        for (int64_t row = 0; row < s.images; ++row) {
            const int64_t part = s.begins[row] / (window ? window : s.chunk_bytes);
            if (part != last) wanted.emplace_back(before + row, 0, 0);
            last = part;
            ++std::get<1>(wanted.back());
            std::get<2>(wanted.back()) += s.decoded[row];
        }
        before += s.images;
    }
    std::vector<std::tuple<int64_t, int64_t, size_t>> got;
    const SplitPieces pieces(SplitReader(data_, "train"));
    for (const Piece& piece : pieces.all()) got.emplace_back(piece.first, piece.rows, piece.bytes);
    EXPECT_EQ(got, wanted);
    EXPECT_GE(wanted.size(), GetParam().starts_with("small") ? 2u : 4u)
        << "two shards, and large ones of several pieces";
}

TEST_P(SplitPiecesOf, HoldWhatHdf5Reads) {
    const auto open_files = [] { return H5Fget_obj_count(hid_t(H5F_OBJ_ALL), H5F_OBJ_FILE); };
    const ssize_t before = open_files();  // a full disk may have left a file open in an earlier test
    for (const char* split : {"train", "test"}) {
        auto reader = std::make_unique<SplitReader>(data_, split);
        const Bytes wanted = read_by_hdf5(*reader);
        const SplitPieces pieces(*reader);
        reader.reset();
        EXPECT_EQ(open_files(), before) << "HDF5 has no file of this test open";
        SplitPieces::Scratch scratch;
        size_t at = 0;
        for (size_t i = 0; i < pieces.all().size(); ++i) {
            Bytes got(pieces.all()[i].bytes + 64, 0xa5);
            pieces.read(i, got.data(), scratch);
            const size_t bytes = pieces.all()[i].bytes;
            ASSERT_LE(at + bytes, wanted.size());
            EXPECT_TRUE(std::equal(wanted.begin() + int64_t(at), wanted.begin() + int64_t(at + bytes), got.begin()))
                << split << ", piece " << i;
            EXPECT_EQ(Bytes(got.begin() + int64_t(bytes), got.end()), Bytes(64, 0xa5)) << "writes no further";
            at += bytes;
        }
        EXPECT_EQ(at, wanted.size());
    }
}

TEST_P(SplitPiecesOf, AreReadByEightThreadsAtOnce) {
    const SplitReader reader(data_, "train");
    const Bytes wanted = read_by_hdf5(reader);
    const SplitPieces pieces(reader);
    std::vector<size_t> at(1, 0);
    for (const Piece& piece : pieces.all()) at.push_back(at.back() + piece.bytes);
    std::vector<int> wrong(8, 0);
    {
        std::vector<std::jthread> threads;
        for (size_t t = 0; t < wrong.size(); ++t)
            threads.emplace_back([&, t] {
                SplitPieces::Scratch scratch;
                for (size_t k = 0; k < pieces.all().size(); ++k) {
                    const size_t i = (k + t) % pieces.all().size();
                    Bytes got(pieces.all()[i].bytes);
                    pieces.read(i, got.data(), scratch);
                    wrong[t] += !std::equal(got.begin(), got.end(), wanted.begin() + int64_t(at[i]));
                }
            });
    }
    EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

// One byte changes after the pieces were made: those that need its chunk fail and name it. All
// others still hold the same.
TEST_P(SplitPiecesOf, NameTheChunkThatWasDamaged) {
    const TempDir dir;
    const std::string data = dir.path("set"), path = data + "/train-00001-of-00002.h5";
    fs::copy(data_, data);
    const Stored s = stored(path);
    const size_t chunk = size_t((s.begins.back() - 1) / s.chunk_bytes) / 2;
    const SplitPieces pieces(SplitReader(data, "train"));
    std::string content = read_file(path);
    const std::string bytes = chunk_of(path, chunk);
    const size_t at = content.find(bytes);
    ASSERT_NE(at, std::string::npos);
    content[at + bytes.size() / 3] ^= 4;
    write_file(path, content);

    std::vector<int64_t> rows;  // rows of the chunk
    for (int64_t row = 0; row < s.images; ++row)
        if (s.begins[row] < int64_t(chunk + 1) * s.chunk_bytes && s.begins[row + 1] > int64_t(chunk) * s.chunk_bytes)
            rows.push_back(row);
    const std::string words = path + ": chunk " + std::to_string(chunk) + " of " + name_ + " (rows " +
                              std::to_string(rows.front()) + " to " + std::to_string(rows.back()) +
                              ") does not match its checksum";
    const int64_t before = stored(data + "/train-00000-of-00002.h5").images;
    SplitPieces::Scratch scratch;
    for (size_t i = 0; i < pieces.all().size(); ++i) {
        const Piece& piece = pieces.all()[i];
        const bool hit = piece.first <= before + rows.back() && piece.first + piece.rows > before + rows.front();
        Bytes got(piece.bytes);
        const auto read = [&] { pieces.read(i, got.data(), scratch); };
        if (hit)
            EXPECT_EQ("", problem_of_error(Exit::bad_input, {words}, read));
        else
            EXPECT_NO_THROW(read()) << "piece " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SplitPiecesOf,
                         testing::Values("images", "small_images", "vectors", "raw", "jpeg", "small_raw", "small_jpeg"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace convoy::test
