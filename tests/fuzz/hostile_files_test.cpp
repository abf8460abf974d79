// Files from elsewhere: whatever they hold, they are read, or refused with one line, without a
// crash, a hang or memory for what they merely claim. tests/fuzz/inputs has inputs that a fuzzer
// found; `make fuzz READER=shard` looks for more.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/fuzz/hdf5.h"
#include "tests/fuzz/readers.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class HostileFiles : public testing::TestWithParam<std::string> {};

TEST_P(HostileFiles, ThatAFuzzerFoundAreReadOrRefused) {  // run from the repository's root
    int inputs = 0, refused = 0;
    for (const auto& entry : fs::directory_iterator("tests/fuzz/inputs/" + GetParam())) {
        const std::string bytes = read_file(entry.path());
        const TempDir dir;
        ++inputs;
        try {
            refused +=
                !feed(GetParam(), dir.path(), {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}).empty();
        } catch (const std::exception& error) {
            ADD_FAILURE() << entry.path() << ": " << error.what();
        }
    }
    std::printf("%d inputs, %d refused\n", inputs, refused);
    EXPECT_GT(refused, 0);
    EXPECT_LT(refused, inputs) << "a good input must be among them, or the reader refuses everything";
}

TEST_P(HostileFiles, OfEveryKindAreReadOrRefused) {
    const int files = long_form() ? 20000 : 500;
    std::mt19937 random(7);
    int refused = 0;
    for (int i = 0; i < files; ++i) {
        std::vector<uint8_t> bytes(random() % 64);
        for (uint8_t& byte : bytes) byte = uint8_t(random());
        if (!bytes.empty()) bytes[0] %= first_kind;  // the other kinds have a separate test
        const TempDir dir;
        try {
            refused += !feed(GetParam(), dir.path(), bytes).empty();
        } catch (const std::exception& error) {
            ADD_FAILURE() << "file " << i << ": " << error.what();
        }
    }
    std::printf("%d files, %d refused\n", files, refused);
    EXPECT_GT(refused, files / 4);
    record_fault("hostile " + GetParam() + " files", "read or refused in one line; no crash, no hang",
                 std::to_string(refused) + " refused", files);
}

/// Readers of HDF5 files, with each kind of hostile file that tests/fuzz/hdf5.h names.
class HostileFilesOfHdf5 : public testing::TestWithParam<std::tuple<std::string, size_t>> {};

constexpr const char* kind_names[] = {"Chunks", "Types", "OldFormat", "Structure"};

TEST_P(HostileFilesOfHdf5, AreReadOrRefused) {
    const auto& [reader, kind] = GetParam();
    const int files = long_form() ? 20000 : 150;
    const char* seed = std::getenv("CONVOY_FUZZ_SEED");  // another run, with other files
    std::mt19937 random(uint32_t(seed ? std::atoi(seed) : 7));
    int refused = 0;
    for (int i = 0; i < files; ++i) {
        std::vector<uint8_t> bytes(64);
        for (uint8_t& byte : bytes) byte = uint8_t(random());
        bytes[0] = uint8_t(first_kind + 4 * kind + bytes[0] % 4);
        const TempDir dir;
        try {
            refused += !feed(reader, dir.path(), bytes).empty();
        } catch (const std::exception& error) {
            ADD_FAILURE() << "file " << i << ": " << error.what();
        }
    }
    std::printf("%d files, %d refused\n", files, refused);
    EXPECT_GT(refused, 0);
    record_fault("hostile " + reader + " files: " + kind_names[kind], "read or refused in one line; no crash, no hang",
                 std::to_string(refused) + " refused", files);
}

INSTANTIATE_TEST_SUITE_P(Readers, HostileFilesOfHdf5,
                         testing::Combine(testing::Values("shard", "ragged", "checkpoint", "model", "metrics"),
                                          testing::Range<size_t>(0, 4)),
                         [](const auto& test) {
                             return std::get<0>(test.param) + kind_names[std::get<1>(test.param)];
                         });

INSTANTIATE_TEST_SUITE_P(Readers, HostileFiles, testing::ValuesIn(fuzz_reader_names()),
                         [](const auto& reader) { return reader.param; });

}  // namespace
}  // namespace convoy::test
