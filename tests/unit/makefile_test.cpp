// The Makefile in a folder whose name has blanks and quotes, and with paths that make cannot use.
// Run from the repository's root.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

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

// The executable would look for libraries in the current folder.
TEST_F(Makefile, TakesNoPathOfLibrariesWithAColon) {
    for (const std::string variable : {"CUDA", "ONEDNN"}) {
        const Finished f = make(variable + "=/scratch/a:b help");
        EXPECT_EQ(f.code, 2);
        EXPECT_NE(f.err.find(variable + "='/scratch/a:b': the loader takes paths apart at colons"), std::string::npos)
            << f.err;
    }
    const TempDir dir;
    write_file(dir.path("a:b/Makefile"), read_file("Makefile"));
    const Finished f = make("CUDA= -C " + dir.path("a:b") + " help");
    EXPECT_NE(f.err.find("ONEDNN='" + dir.path("a:b") + "/.deps/onednn'"), std::string::npos) << f.err;
}

// BUILD may be set in the environment, for another program.
TEST_F(Makefile, CleanRemovesOnlyAFolderThatItBuiltIn) {
    const TempDir dir;
    write_file(dir.path("mine/thesis"), "mine");
    write_file(dir.path("built/flags"), "");
    const auto clean = [&](const char* folder) {
        return run("env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS BUILD=" + dir.path(folder) + " make CUDA= clean");
    };
    const Finished refused = clean("mine");
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("BUILD=" + dir.path("mine") + " is not a folder that make has built in"),
              std::string::npos)
        << refused.err;
    EXPECT_EQ(read_file(dir.path("mine/thesis")), "mine");
    EXPECT_EQ(clean("built").code, 0);
    EXPECT_FALSE(std::filesystem::exists(dir.path("built")));
    EXPECT_EQ(clean("absent").code, 0);
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
