// The executable is linked and compiled so that a buffer overflow is detected and ends it. Checked
// with readelf.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

bool is_optimized_and_not_sanitized() {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

std::string told_by_readelf(const std::string& options) {
    return run("readelf -W " + options + " " + sibling("convoy")).out;
}

/// Returns the permissions of a segment in readelf's notation: "RW", "R E".
std::string permissions(const std::string& segments, const std::string& name) {
    const size_t line = segments.find(name);
    if (line == std::string::npos) return "no such segment";
    const std::string text = segments.substr(line, segments.find('\n', line) - line);
    const size_t last_number = text.rfind(" 0x");
    std::string letters = text.substr(0, last_number);
    letters = letters.substr(letters.rfind("0x"));
    letters = letters.substr(letters.find(' '));
    letters.erase(0, letters.find_first_not_of(' '));
    return letters.substr(0, letters.find_last_not_of(' ') + 1);
}

class Hardening : public testing::Test {
protected:
    void SetUp() override {
        if (run("command -v readelf").code != 0) GTEST_SKIP() << "needs binutils";
    }
};

TEST_F(Hardening, NoPageIsWrittenAndExecuted) {
    const std::string segments = told_by_readelf("-l");
    EXPECT_EQ(permissions(segments, "GNU_STACK"), "RW");
    EXPECT_EQ(permissions(segments, "GNU_RELRO"), "R");
    EXPECT_EQ(segments.find("RWE"), std::string::npos) << segments;
}

TEST_F(Hardening, AddressesAreBoundAtTheStartAndTheProgramMayLieAnywhere) {
    const std::string dynamic = told_by_readelf("-d");
    EXPECT_NE(dynamic.find("BIND_NOW"), std::string::npos) << dynamic;
    EXPECT_NE(dynamic.find("PIE"), std::string::npos) << dynamic;
}

// A path that begins at the executable's folder leads to files of others, if that is in /tmp.
TEST_F(Hardening, LibrariesAreSoughtInAbsoluteFoldersOnly) {
    const std::string dynamic = told_by_readelf("-d");
    const size_t at = dynamic.find("Library runpath: [");
    ASSERT_NE(at, std::string::npos) << dynamic;
    std::istringstream folders(dynamic.substr(at + 18, dynamic.find(']', at) - at - 18));
    int count = 0;
    for (std::string folder; std::getline(folders, folder, ':'); ++count)
        EXPECT_TRUE(folder.starts_with("/")) << folder;
    EXPECT_GT(count, 0);
}

TEST_F(Hardening, BuffersAreGuarded) {
    const std::string symbols = told_by_readelf("--dyn-syms");
    EXPECT_NE(symbols.find("__stack_chk_fail"), std::string::npos);
    if (!is_optimized_and_not_sanitized()) GTEST_SKIP() << "only an optimized build checks the C library's calls";
    EXPECT_NE(symbols.find("_chk@GLIBC"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
