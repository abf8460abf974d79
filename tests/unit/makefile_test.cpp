// The Makefile in a folder whose name has blanks and quotes, and with paths that make cannot use.
// Run from the repository's root.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/shell_word.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

class Makefile : public testing::Test {
protected:
    void SetUp() override {
        if (run("command -v make && test -e Makefile").code != 0) GTEST_SKIP() << "needs make and the Makefile";
    }
    /// Runs `make ARGUMENTS` separately from the make that runs the tests.
    static Finished make(const std::string& arguments) {
        return run(
            "env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u BUILD -u CUDA -u ONEDNN -u CUDNN_FRONTEND make "
            "--no-print-directory -n " +
            arguments);
    }
};

TEST_F(Makefile, SaysWhichPathItCannotTake) {
    for (const std::string variable : {"BUILD", "CUDA", "ONEDNN", "CUDNN_FRONTEND"}) {
        const Finished f = make(variable + "='my folder' help");
        EXPECT_EQ(f.code, 2);
        EXPECT_NE(f.err.find(variable + "='my folder': make takes paths apart at blanks"), std::string::npos) << f.err;
        EXPECT_EQ(f.err.find('\n'), f.err.size() - 1) << f.err;
    }
    EXPECT_EQ(make("CUDA= help").code, 0);
}

TEST_F(Makefile, LinksInAFolderWithBlanksAndQuotes) {
    const TempDir dir;
    const std::string folder = dir.path("it's a $folder");
    ASSERT_EQ(run("d=" + shell_word(folder) + "; mkdir -p \"$d/src\" \"$d/tests\" && cp Makefile \"$d\" && cp " +
                  "tests/tests.mk \"$d/tests\" && touch \"$d/src/main.cpp\"")
                  .code,
              0);
    const Finished f = make("-C " + shell_word(folder) + " CUDA= build/convoy");
    ASSERT_EQ(f.code, 0) << f.err;
    const size_t link = f.out.find("link build/convoy\n");
    ASSERT_NE(link, std::string::npos) << f.out;
    const std::string words = run("printf '%s\\n' " + f.out.substr(f.out.find('\n', link) + 1)).out;
    EXPECT_NE(words.find("-Wl,-rpath," + folder + "/.deps/onednn/lib\n"), std::string::npos) << words;
}

}  // namespace
}  // namespace convoy::test
