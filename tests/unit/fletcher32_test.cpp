// Fletcher-32 compared with chunks that HDF5 wrote, and with what HDF5 accepts.
#include "data/fletcher32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "data/hdf5.h"

namespace convoy::test {
namespace {

using Chunk = std::vector<uint8_t>;

/// One-chunk data sets of a file in memory.
class OneChunk {
public:
    explicit OneChunk(size_t bytes)
        : set_(h5::create_dataset(file_, "/set", H5T_STD_U8LE, {bytes}, {bytes}, "memory")) {}
    /// Returns the stored bytes of `content`: the bytes and their checksum.
    Chunk written(const Chunk& content) {
        h5::write_rows(set_, H5T_NATIVE_UINT8, 0, content.size(), content.data(), "memory");
        Chunk raw(content.size() + 4);
        const hsize_t first = 0;
        uint32_t skipped = 1;
        EXPECT_GE(H5Dread_chunk(set_, H5P_DEFAULT, &first, &skipped, raw.data()), 0);
        EXPECT_EQ(skipped, 0u);
        return raw;
    }
    /// Returns true if HDF5 reads a chunk of these bytes and this checksum.
    bool reads(const Chunk& raw) {
        const hsize_t first = 0;
        EXPECT_GE(H5Dwrite_chunk(set_, H5P_DEFAULT, 0, &first, raw.size(), raw.data()), 0);
        Chunk content(raw.size() - 4);
        return H5Dread(set_, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data()) >= 0;
    }

private:
    h5::Handle file_ = h5::create_in_memory();
    h5::Handle set_;
};

/// Returns all short lengths, and lengths around a row of words (64 bytes) and around 360 rows,
/// which are summed without carries.
std::vector<size_t> lengths() {
    std::vector<size_t> all;
    for (size_t bytes = 1; bytes <= 260; ++bytes) all.push_back(bytes);
    for (const size_t around : {720, 721, 64 * 359, 64 * 360, 64 * 361, 64 * 720, 64 * 3600, 1 << 20})
        for (int off : {-65, -64, -2, -1, 0, 1, 2, 63, 64, 65}) all.push_back(around + size_t(off));
    return all;
}

TEST(Fletcher32, IsWhatHdf5Wrote) {
    std::mt19937 random(32);
    const std::vector<std::pair<const char*, std::function<uint8_t(size_t)>>> contents = {
        {"zeros", [](size_t) { return 0; }},
        {"255", [](size_t) { return 255; }},
        {"random", [&](size_t) { return uint8_t(random()); }},
        {"zeros after a one", [](size_t i) { return i == 0; }},
        {"words of 65535 among zeros", [](size_t i) { return i / 2 % 3 ? 0 : 255; }},
        {"bytes that fall", [](size_t i) { return uint8_t(255 - i % 256); }},
    };
    for (const size_t bytes : lengths()) {
        OneChunk set(bytes);
        for (const auto& [name, byte] : contents) {
            Chunk content(bytes);
            for (size_t i = 0; i < bytes; ++i) content[i] = byte(i);
            const Chunk raw = set.written(content);
            uint32_t sum = 0;
            std::memcpy(&sum, &raw[bytes], sizeof sum);
            ASSERT_EQ(fletcher32(content.data(), bytes), sum) << bytes << " bytes, " << name;
            ASSERT_TRUE(matches_fletcher32(raw.data(), bytes));
        }
    }
}

// Vector loads start at any address.
TEST(Fletcher32, IsTheSameAtAnyAddress) {
    Chunk content(3000);
    std::mt19937 random(1);
    for (uint8_t& byte : content) byte = uint8_t(random());
    const uint32_t sum = fletcher32(content.data(), 2500);
    for (size_t shift = 1; shift < 70; ++shift) {
        Chunk moved(shift, 7);
        moved.insert(moved.end(), content.begin(), content.begin() + 2500);
        EXPECT_EQ(fletcher32(moved.data() + shift, 2500), sum) << shift;
    }
}

TEST(Fletcher32, NoticesEveryFlippedBit) {
    for (const size_t bytes : {1, 2, 63, 64, 65, 200, 301}) {
        Chunk content(bytes);
        std::mt19937 random{uint32_t(bytes)};
        for (uint8_t& byte : content) byte = uint8_t(random());
        Chunk raw = OneChunk(bytes).written(content);
        for (size_t bit = 0; bit < raw.size() * 8; ++bit) {
            raw[bit / 8] ^= uint8_t(1 << bit % 8);
            EXPECT_FALSE(matches_fletcher32(raw.data(), bytes)) << "bit " << bit << " of " << bytes << " bytes";
            raw[bit / 8] ^= uint8_t(1 << bit % 8);
        }
        EXPECT_TRUE(matches_fletcher32(raw.data(), bytes));
    }
}

// The four bytes of the sum in every order: HDF5 reads two of them.
TEST(Fletcher32, AcceptsTheSumsThatHdf5Accepts) {
    const Chunk content = {1, 20, 3, 200, 5};
    OneChunk set(content.size());
    const Chunk raw = set.written(content);
    std::vector<int> order = {0, 1, 2, 3};
    int accepted = 0;
    do {
        Chunk changed = raw;
        for (size_t i = 0; i < 4; ++i) changed[content.size() + i] = raw[content.size() + size_t(order[i])];
        const bool reads = set.reads(changed);
        EXPECT_EQ(matches_fletcher32(changed.data(), content.size()), reads);
        accepted += reads;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(accepted, 2);
}

}  // namespace
}  // namespace convoy::test
