// What is known of the launchers of OpenMPI 4 and 5.
#include <gtest/gtest.h>

#include "comm/launcher.h"

namespace convoy {
namespace {

TEST(Launcher, TimeUntilTheKillIsThatOfTheVersion) {
    struct Case {
        const char* library;
        double to_term, to_kill;
    };
    for (const Case& c : {Case{"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", 1, 2},
                          Case{"Open MPI v5.0.7, ident", 0.25, 0.5}, Case{"Open MPI v10.1.0", 0.25, 0.5},
                          Case{"MPICH Version: 4.0.2", 1, 2}, Case{"", 1, 2}}) {
        EXPECT_EQ(launcher_grace(c.library).to_term, c.to_term) << c.library;
        EXPECT_EQ(launcher_grace(c.library).to_kill, c.to_kill) << c.library;
    }
}

TEST(Launcher, TheLibraryThatRunsIsAsked) {
    const double to_kill = launcher_grace().to_kill;
    EXPECT_TRUE(to_kill == 2 || to_kill == 0.5) << to_kill;
}

}  // namespace
}  // namespace convoy
