// help, version and -h in every form that people try: they answer without starting MPI, once per
// job.
#include <gtest/gtest.h>

#include "base/version.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

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
                                                         {"help predict", "usage: convoy predict"}};
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

TEST(Help, OfACommandThatIsNotThereNamesTheCommands) {
    EXPECT_EQ("", refusal(convoy_alone("help zebra"), Exit::usage, {"'zebra'", "train"}));
}

}  // namespace
}  // namespace convoy::test
