// Files from elsewhere: whatever they hold, they are read or refused with one line, without a
// crash, a hang or memory for what they merely claim. Inputs that a fuzzer found are in
// tests/fuzz/inputs; `make fuzz READER=shard` looks for more.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

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

INSTANTIATE_TEST_SUITE_P(Readers, HostileFiles, testing::ValuesIn(fuzz_reader_names()),
                         [](const auto& reader) { return reader.param; });

}  // namespace
}  // namespace convoy::test
