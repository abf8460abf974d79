// help, version and -h in every form that people try: they answer without starting MPI, once per
// job.
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "base/shell_word.h"
#include "base/version.h"
#include "cli/help.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Runs `convoy ARGUMENTS` where MPI_Init fails, because OpenMPI has no component of this name.
Finished where_mpi_fails(const std::string& arguments) {
    return run(with_limit("env OMPI_MCA_pml=none " + sibling("convoy") + " " + arguments, 60));
}

TEST(Help, NeedsNoMpi) {
    ASSERT_NE(where_mpi_fails("verify input/cifar10-sample").code, 0) << "MPI starts in spite of its setting";
    const std::pair<const char*, const char*> cases[] = {{"-h", "usage: convoy COMMAND"},
                                                         {"help", "usage: convoy COMMAND"},
                                                         {"--help", "usage: convoy COMMAND"},
                                                         {"help train", "usage: convoy train"},
                                                         {"train -h", "usage: convoy train"},
                                                         {"train --epochs 3 --help", "usage: convoy train"},
                                                         {"help evaluate", "usage: convoy evaluate"},
                                                         {"help demo", "usage: convoy demo"},
                                                         {"demo -h", "usage: convoy demo"},
                                                         {"bench -h", "usage: convoy bench"},
                                                         {"comm-test -h", "usage: convoy comm-test"},
                                                         {"info -h", "usage: convoy info"},
                                                         {"help convert", "usage: convoy convert"},
                                                         {"convert mnist -h", "usage: convoy convert"},
                                                         {"convert imagefolder -h", "usage: convoy convert"},
                                                         {"verify -h", "usage: convoy verify"},
                                                         {"report -h", "usage: convoy report"},
                                                         {"plot -h", "usage: convoy plot"},
                                                         {"predict -h", "usage: convoy predict"},
                                                         {"help predict", "usage: convoy predict"},
                                                         {"-h train", "usage: convoy train"},
                                                         {"--help convert mnist", "usage: convoy convert mnist"},
                                                         {"help convert mnist", "usage: convoy convert mnist"},
                                                         {"convert --help mnist", "usage: convoy convert mnist"},
                                                         {"train --zebra -h", "usage: convoy train"},
                                                         {"plot none --help", "usage: convoy plot"},
                                                         {"help train checkpoints", "run folder and checkpoints:"},
                                                         {"train --help=lr", "optimizer and schedule:"},
                                                         {"convert mnist -h shards", "mnist:"}};
    for (const auto& [arguments, usage] : cases) {
        const Finished f = where_mpi_fails(arguments);
        EXPECT_EQ("", failure(f)) << arguments;
        EXPECT_EQ(f.out.find(usage), 0u) << arguments << ": " << f.out;
        EXPECT_EQ(f.err, "") << arguments;
    }
    for (const char* arguments : {"version", "--version"}) {
        const Finished f = where_mpi_fails(arguments);
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(f.out.find(std::string("convoy ") + version + " ("), 0u) << f.out;
    }
}

TEST(Help, IsPrintedOnceByAJobOfSeveralRanks) {
    const Finished f = launch(3, "train -h");
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, "usage: convoy train"), 1) << f.out;
    EXPECT_EQ(count(launch(2, "version").out, "convoy "), 1);
}

TEST(Help, OfNoCommandFitsAScreenAndIsAMistake) {
    const Finished f = where_mpi_fails("");
    EXPECT_EQ(f.code, int(Exit::usage));
    EXPECT_EQ(f.out, "");
    EXPECT_EQ(f.err, where_mpi_fails("-h").out);
    EXPECT_LE(count(f.err, "\n"), 24);
    for (size_t begin = 0, end = 0; (end = f.err.find('\n', begin)) != std::string::npos; begin = end + 1)
        EXPECT_LE(end - begin, 85u) << f.err.substr(begin, end - begin);
    EXPECT_NE(f.err.find("--help\n", f.err.size() - 8), std::string::npos) << f.err;
}

TEST(Help, OfAnUnknownTopicIsOneLine) {
    EXPECT_EQ("", refusal(where_mpi_fails("train --help zebra"), Exit::usage, {"zebra", "checkpoints"}));
    EXPECT_EQ("", refusal(where_mpi_fails("verify --help zebra"), Exit::usage, {"zebra", "dir"}));
}

/// The columns of the widest line that `command` prints, which is ASCII.
int widest(const std::string& command) {
    const Finished f = run(with_limit(command, 60));
    EXPECT_EQ("", failure(f)) << command;
    size_t most = 0, at = 0;
    for (const char c : f.out) at = c == '\n' || c == '\r' ? 0 : at + 1, most = std::max(most, at);
    return int(most);
}

// A terminal of 107 columns is made by script(1), of the package bsdutils.
TEST(Help, IsAsWideAsTheTerminal) {
    const std::string help = sibling("convoy") + " train --help";
    const auto of = [&](const std::string& columns) { return widest("env COLUMNS=" + columns + " " + help); };
    const int narrow = of("80");
    EXPECT_LE(narrow, 80);
    EXPECT_GT(of("100"), 90);
    EXPECT_LE(of("100"), 100);
    EXPECT_EQ(of("20"), narrow) << "no text fits 20 columns";
    EXPECT_EQ(of("1000"), of("120")) << "lines that long are hard to read";
    EXPECT_EQ(of("wide"), narrow);
    EXPECT_EQ(widest("env -u COLUMNS " + help + " 2>/dev/null"), narrow) << "no terminal";
    const int terminal = widest("script -qec 'stty cols 107; exec env -u COLUMNS " + help + "' /dev/null </dev/null");
    EXPECT_GT(terminal, 100);
    EXPECT_LE(terminal, 107);
}

/// The example of -h that begins with its line `first`, as a shell takes it.
std::string example(const std::string& command, size_t first) {
    const std::vector<std::string>& lines = screen_of(command)->examples;
    std::string text = lines.at(first);
    while (text.ends_with("\\")) text += "\n" + lines.at(++first);
    return text;
}

// Runs the examples that need only the shipped files, in this order, in a folder that has them.
TEST(Help, ExamplesWorkAsTheyStand) {
    const TempDir folder;
    fs::create_directory(folder.path("input"));
    for (const char* name : {"input/recipes", "input/mnist-sample", "jobs"})
        fs::create_directory_symlink(fs::absolute(name), folder.path(name));
    const std::string here =
        "cd " + folder.path() + "\nPATH=" + fs::path(sibling("convoy")).parent_path().string() + ":$PATH\n";
    const std::string short_bench = " --steps 1 --warmup 0 --profile-steps 0 --tuning quick";
    for (const auto& [command, first, more] : {std::tuple("convert mnist", 0, ""),
                                               {"train", 0, " --dry-run"},
                                               {"demo", 0, ""},
                                               {"demo", 1, ""},
                                               {"bench", 0, short_bench.c_str()},
                                               {"bench", 1, short_bench.c_str()},
                                               {"predict", 0, ""},
                                               {"predict", 2, ""}}) {
        const std::string line = example(command, size_t(first)) + more;
        EXPECT_EQ("", failure(run(with_limit("bash -c " + shell_word(here + line), 60)))) << line;
    }
}

TEST(Help, OfACommandThatIsNotThereNamesTheCommands) {
    EXPECT_EQ("", refusal(convoy_alone("help zebra"), Exit::usage, {"'zebra'", "train"}));
}

}  // namespace
}  // namespace convoy::test
