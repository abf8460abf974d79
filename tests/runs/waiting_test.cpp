// Waiting of OpenMP's threads, as reported by the OpenMP library itself (OMP_DISPLAY_ENV), once
// each time the program is loaded.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Returns the GOMP_SPINCOUNT of each load of `convoy train --help`, in order, and "not gnu" if
/// another OpenMP is in use.
std::vector<std::string> spin_counts(const std::string& environment, const std::string& start = "",
                                     const std::string& command = "train") {
    const Finished f =
        run(with_limit("env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose " + environment + " " + start +
                           " " + sibling("convoy") + " " + command + " --help",
                       60));
    EXPECT_EQ("", failure(f));
    std::vector<std::string> counts;
    std::istringstream in(f.err);
    const std::string key = "GOMP_SPINCOUNT = '";
    for (std::string line; std::getline(in, line);)
        if (const size_t at = line.find(key); at != std::string::npos)
            counts.push_back(line.substr(at + key.size(), line.rfind('\'') - at - key.size()));
    return counts;
}

class Waiting : public testing::Test {
protected:
    void SetUp() override {
        if (spin_counts("GOMP_SPINCOUNT=7").empty()) GTEST_SKIP() << "not GNU OpenMP";
    }
};

TEST_F(Waiting, IsBriefUnlessTheUserSaysOtherwise) {
    for (const char* command : {"train", "bench", "evaluate"}) {
        const std::vector<std::string> counts = spin_counts("", "", command);
        ASSERT_EQ(counts.size(), 2u) << command << ": loaded, then started anew";
        EXPECT_GT(std::stoll(counts[0]), 100000) << "what the library does by itself";
        EXPECT_EQ(counts[1], "10000") << command;
    }
    EXPECT_EQ(spin_counts("GOMP_SPINCOUNT=12345"), std::vector<std::string>{"12345"});
    EXPECT_EQ(spin_counts("OMP_WAIT_POLICY=passive"), std::vector<std::string>{"0"});
    ASSERT_EQ(spin_counts("OMP_WAIT_POLICY=active").size(), 1u);
    EXPECT_GT(std::stod(spin_counts("OMP_WAIT_POLICY=active")[0]), 1e9);
    EXPECT_EQ(spin_counts("", "", "report").size(), 1u) << "what does not compute starts once";
}

TEST_F(Waiting, UnderADebuggerTheProgramStartsOnce) {
    if (run("strace -f true").code != 0) GTEST_SKIP() << "strace is not here, or may not trace";
    EXPECT_EQ(spin_counts("", "strace -f -o /dev/null -e trace=none").size(), 1u);
}

// The restart keeps the process, its name, its arguments, and the environment variables of its
// launcher.
TEST_F(Waiting, RanksStayThoseOfTheirLauncher) {
    const TempDir dir;
    const Finished f = run(with_limit(
        "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY mpirun --oversubscribe --bind-to none -np 2 " + sibling("convoy") +
            " bench --model linear --batch-per-rank 4 --warmup 0 --steps 2 --profile-steps 0 --threads 1",
        60));
    EXPECT_EQ("", failure(f));
    EXPECT_NE(f.out.find("\"ranks\":2"), std::string::npos) << f.out;
    const Finished named =
        run("(env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY bash -c 'echo $$ >" + dir.path("pid") + "; exec " +
            sibling("convoy") +
            " bench --model linear --batch-per-rank 4 --steps 1000000 --threads 1' >/dev/null 2>&1 &); "
            "for i in $(seq 100); do sleep 0.1; p=$(cat " +
            dir.path("pid") +
            " 2>/dev/null) || continue; "
            "tr '\\0' '\\n' </proc/$p/environ 2>/dev/null | grep GOMP_SPINCOUNT=10000 && break; done; sleep 0.5; "
            "cat /proc/$p/comm; tr '\\0' ' ' </proc/$p/cmdline; kill -9 $p");
    EXPECT_NE(named.out.find("GOMP_SPINCOUNT=10000\nconvoy\n"), std::string::npos) << named.out << named.err;
    EXPECT_NE(named.out.find("bench --model linear"), std::string::npos) << named.out;
}

// A library removes the executable before main begins, as its owner may do. In /tmp, another user
// may then give a file the name that the system shows for it, or the old name.
TEST_F(Waiting, WhatTakesThePlaceOfTheExecutableIsNotStarted) {
    namespace fs = std::filesystem;
    const TempDir dir;
    const std::string copy = dir.path("convoy"), other = dir.path("other"), ran = dir.path("ran"),
                      library = dir.path("remove.so");
    write_file(dir.path("remove.c"), R"(#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void before_main(void) {
    unlink(getenv("COPY"));
    if (getenv("OTHER")) rename(getenv("OTHER"), getenv("COPY"));
}
)");
    if (run("cc -shared -fPIC -o " + library + " " + dir.path("remove.c")).code != 0) GTEST_SKIP() << "no C compiler";
    const std::string script = "#!/bin/sh\ntouch " + ran + "\n";
    for (const std::string& name : {other, copy + " (deleted)"}) {
        write_file(name, script);
        fs::permissions(name, fs::perms::all);
    }
    for (const std::string& exchanged : {std::string(), "OTHER=" + other}) {
        fs::copy_file(sibling("convoy"), copy);
        const Finished f = run(with_limit(
            "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=" +
                library + " COPY=" + copy + " " + exchanged + " " + copy + " train --help",
            60));
        EXPECT_EQ("", failure(f));
        EXPECT_NE(f.out.find("--batch-size"), std::string::npos) << "the program goes on";
        EXPECT_FALSE(fs::exists(ran)) << exchanged;
    }
}

}  // namespace
}  // namespace convoy::test
