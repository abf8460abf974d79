// tests/selection.py: which tests make test SINCE= and the nightly shares run.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

class Selection : public testing::Test {
protected:
    /// Runs lines of Python in the checkout; `s` is the module, `tests` are three sample tests.
    Finished python(const std::string& lines) {
        write_file(dir_.path("build/tests/unit/a_test.d"), "a.o: tests/unit/a_test.cpp \\\n src/plan/memory.h\n");
        write_file(dir_.path("build/tests/unit/b_test.d"),
                   "b.o: tests/unit/b_test.cpp src/train/trainer.h src/data/shard.h\n");
        write_file(dir_.path("build/tests/runs/ranks_test.d"), "r.o: tests/runs/ranks_test.cpp src/base/text.h\n");
        write_file(dir_.path("script.py"),
                   "import os, sys\nsys.path.insert(0, 'tests')\nimport selection as s\n"
                   "names = lambda tests: ' '.join(test.name for test in tests)\n"
                   "tests = [s.Test(s.PROGRAM, 'A.X', 'tests/unit/a_test.cpp'), s.Test(s.PROGRAM, 'B.X', "
                   "'tests/unit/b_test.cpp'), s.Test(s.PROGRAM, 'Ranks.X', 'tests/runs/ranks_test.cpp')]\n" +
                       lines);
        return run("BUILD=" + dir_.path("build") + " ${PYTHON:-/usr/bin/python3} -B " + dir_.path("script.py"));
    }
    /// Returns the names of those of the three tests that a changed file can break.
    std::string broken_by(const std::string& path) {
        const Finished f = python("print(names(s.breakable(tests, ['" + path + "'])), end='')\n");
        return f.out + f.err;
    }
    TempDir dir_;
};

TEST_F(Selection, AChangedFileRunsTheTestsThatIncludeItsHeader) {
    EXPECT_EQ(broken_by("src/base/text.cpp"), "Ranks.X");
    EXPECT_EQ(broken_by("src/base/text.h"), "Ranks.X");
    EXPECT_EQ(broken_by("tests/unit/a_test.cpp"), "A.X");
}

TEST_F(Selection, ABodyWithoutAHeaderOfItsNameCountsForThoseThatItIncludes) {
    ASSERT_FALSE(std::filesystem::exists("src/data/shard_reader.h")) << "choose another file for this test";
    EXPECT_EQ(broken_by("src/data/shard_reader.cpp"), "B.X");
}

TEST_F(Selection, AChangedFileRunsTheTestsThatItsFolderNames) {
    EXPECT_EQ(broken_by("src/plan/memory.cpp"), "A.X Ranks.X");
    EXPECT_EQ(broken_by("src/comm/comm.cpp"), "Ranks.X");
}

TEST_F(Selection, AChangedFileRunsTheTestsOfTheSourcesThatUseIt) {
    write_file(dir_.path("build/src/train/trainer.d"), "t.o: src/train/trainer.cpp src/base/folder.h\n");
    EXPECT_EQ(broken_by("src/base/folder.cpp"), "B.X");
}

TEST_F(Selection, ALineNamesTestsWithParametersToo) {
    const Finished f = python(
        "tests[0] = s.Test(s.PROGRAM, 'All/KernelOps.X/pool', 'tests/unit/a_test.cpp')\n"
        "print(names(s.breakable(tests, ['kernels/pool.cu'])), end='')\n");
    EXPECT_EQ(f.out, "All/KernelOps.X/pool") << f.err;
}

TEST_F(Selection, AFileWithoutALineRunsEverything) {
    for (const char* path : {"Makefile", "tests/main.cpp", "tests/support/support.h", "new.file"})
        EXPECT_EQ(broken_by(path), "A.X B.X Ranks.X") << path;
}

TEST_F(Selection, ATestThatWasNotCompiledYetRuns) {
    const Finished f = python(
        "new = s.Test(s.PROGRAM, 'New.X', 'tests/unit/new_test.cpp')\n"
        "print(names(s.breakable([new], ['LICENSE'])), end='')\n");
    EXPECT_EQ(f.out, "New.X") << f.err;
}

TEST_F(Selection, ChangesAreThoseOfCommitsTheTreeAndNewFiles) {
    const std::string git = "git -c user.name=n -c user.email=e -c init.defaultBranch=main";
    write_file(dir_.path("repository/committed"), "1");
    write_file(dir_.path("repository/changed"), "1");
    write_file(dir_.path("repository/same"), "1");
    const Finished made =
        run("cd " + dir_.path("repository") + " && " + git + " init -q && git add . && " + git +
            " commit -qm a && echo 2 >committed && " + git + " commit -qam b && echo 2 >changed && echo 1 >new");
    ASSERT_EQ(made.code, 0) << made.err;
    const std::string there = "os.chdir('" + dir_.path("repository") + "')\n";
    const Finished f = python(there + "print(*s.changed_since('HEAD~1'), end='')\n");
    EXPECT_EQ(f.out, "changed committed new") << f.err;
    const Finished unknown = python(there + "s.changed_since('nowhere')\n");
    EXPECT_EQ(unknown.code, 1);
    EXPECT_EQ(unknown.err.find("SINCE=nowhere: "), 0u) << unknown.err;
    EXPECT_EQ(unknown.err.find('\n'), unknown.err.size() - 1) << "one line: " << unknown.err;
}

TEST_F(Selection, ThreeCommitsInARowRunEachNightlyTest) {
    const Finished f = python(
        "nightly = [s.Test(s.PROGRAM, f'N.{i}', '') for i in range(10)]\n"
        "patterns = [test.name for test in nightly]\n"
        "for first in (0, 1, 7):\n"
        "    run = [s.share(nightly, patterns, number) for number in range(first, first + s.SHARES)]\n"
        "    assert sorted(sum(run, [])) == nightly, run\n"
        "    assert max(map(len, run)) <= 4, run\n");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST_F(Selection, WhatIsLeftOutIsNamed) {
    const Finished f = python("s.print_left_out(tests, tests[:1])\n");
    EXPECT_EQ(f.out, "runs 1 of 3 tests; left out: B Ranks\n") << f.err;
}

TEST_F(Selection, AProgramThatFailsAfterItsLastTestFails) {
    for (const int code : {0, 23}) {
        write_file(dir_.path("program"),
                   "#!/bin/sh\nreport=$(echo \"$2\" | cut -d: -f2)\n"
                   "echo '{\"testsuites\": [{\"testsuite\": [{\"classname\": \"A\", \"name\": \"X\", \"result\": "
                   "\"COMPLETED\", \"time\": \"1s\"}]}]}' >$report\nexit " +
                       std::to_string(code) + "\n");
        const Finished f = python(
            "import run\n"
            "os.chmod('" +
            dir_.path("program") +
            "', 0o755)\n"
            "runner = run.Runner()\n"
            "runner.run_chunk(0, '" +
            dir_.path("program") +
            "', ['A.X'])\n"
            "print(*(case['name'] + ' ' + case['result'] for case in runner.cases), sep=',', end='')\n");
        const std::string passed = "A.X passed", failed = ",Program.EndsWell failed";
        EXPECT_EQ(f.out.substr(f.out.find("A.X passed")), code ? passed + failed : passed) << f.err << f.out;
    }
}

TEST_F(Selection, TestsAreCutIntoChunksOfOneProgramWithTheLongestFirst) {
    const Finished f = python(
        "import run\n"
        "def chunks(tests, times, are_long=False):\n"
        "    runner = run.Runner()\n"
        "    runner.add(tests, times, are_long)\n"
        "    return [runner.chunks.get() for _ in range(runner.total)]\n"
        "named = lambda program, *names: [s.Test(program, name, '') for name in names]\n"
        "times = {'p A': 0.0, 'p B': 20, 'p C': 5, 'p D': 2, 'p E': 2}\n"
        "s_, e = s.PROGRAM, s.EMULATED\n"
        "times = {name.replace('p ', s_ + ' '): value for name, value in times.items()} | {e + ' A': 0.0}\n"
        "got = chunks(named(s_, 'A', 'B', 'C', 'D', 'E') + named(e, 'A'), times)\n"
        "assert got == [(s_, ['B']), (s_, ['C', 'D']), (s_, ['E', 'A']), (e, ['A'])], got\n"
        "got = chunks(named(s_, 'X', 'Y', 'Z'), {}, are_long=True)\n"
        "assert got == [(s_, ['X']), (s_, ['Y']), (s_, ['Z'])], got\n");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST_F(Selection, NightlyTestsAreLeftOutWhenItIsLate) {
    const Finished f = python(
        "import run\n"
        "class Late(run.Runner):\n"
        "  def run_chunk(self, number, program, names): print('ran', *names)\n"
        "runner = Late([tests[0]], until=1)\n"
        "for test in tests: runner.put(test.program, [test.name])\n"
        "runner.run(1)\n"
        "print([(case['name'], case['result']) for case in runner.cases])\n");
    EXPECT_EQ(f.out, "[1/3] left out, because it is late: A.X\nran B.X\nran Ranks.X\n[('A.X', 'skipped')]\n") << f.err;
}

TEST_F(Selection, EachCommitBeginsWithAnotherNightlyLine) {
    const Finished f = python(
        "s.yesterday, s.share = lambda: '', lambda tests, patterns, number: tests\n"
        "for number in (0, 1):\n"
        "  s.commit_number = lambda: number\n"
        "  print(names(s.of_this_commit(tests, {'long': ['Ranks.*'], 'nightly': ['A.*', 'B.*']})))\n");
    EXPECT_NE(f.out.find("\nRanks.X A.X B.X\n"), std::string::npos) << f.out << f.err;
    EXPECT_NE(f.out.find("\nRanks.X B.X A.X\n"), std::string::npos) << f.out << f.err;
}

}  // namespace
}  // namespace convoy::test
