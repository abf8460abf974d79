// The rules of check.py about sources, objects and tests, one test per rule. Runs only in a
// checkout, because git lists its files.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Structure : public testing::Test {
protected:
    void SetUp() override {
        if (run("git ls-files --error-unmatch Makefile").code != 0) GTEST_SKIP() << "no checkout";
    }
    /// Returns what breaks `rule` in the repository, one per line.
    static std::string offenders(const std::string& rule) { return checked("", rule, ""); }

    /// Returns what breaks `rule` in a repository with these files and no exemptions.
    std::string offenders_among(const std::vector<std::pair<std::string, std::string>>& files,
                                const std::string& rule) const {
        const TempDir dir;
        for (const auto& [path, text] : files) write_file(dir.path(path), text);
        require(run("git init -q " + dir.path()).code == 0, "git makes a repository");
        return checked("cd " + dir.path() + " && ALLOWED=/dev/null", rule, fs::current_path().string() + "/");
    }

private:
    static std::string checked(const std::string& before, const std::string& rule, const std::string& root) {
        const Finished f = run(before + " ${PYTHON:-/usr/bin/python3} -B " + root + "tests/structure/check.py " + rule);
        return f.err + f.out + (f.code != 0 && f.out.empty() ? "check.py ended with an error" : "");
    }
};

TEST_F(Structure, FilesAreShort) { EXPECT_EQ(offenders("files"), ""); }

TEST_F(Structure, FunctionsAreShort) { EXPECT_EQ(offenders("functions"), ""); }

TEST_F(Structure, NoTypeIsDefinedInTwoFiles) { EXPECT_EQ(offenders("types"), ""); }

TEST_F(Structure, NoExternalNameIsDefinedTwiceInOneProgram) {
    std::string lists;
    for (const char* program : {"convoy_tests", "emulated/convoy_tests", "../convoy_tests"})
        if (fs::exists(sibling(program) + ".objects")) lists += sibling(program) + ".objects ";
    ASSERT_FALSE(lists.empty()) << "make writes the names of the objects beside the test program when it links it";
    setenv("OBJECTS", lists.c_str(), 1);
    EXPECT_EQ(offenders("symbols"), "");
}

TEST_F(Structure, NoFoldersIncludeOneAnother) { EXPECT_EQ(offenders("cycles"), ""); }

TEST_F(Structure, FoldersIncludeOnlyWhatTheTableNames) { EXPECT_EQ(offenders("rooms"), ""); }

TEST_F(Structure, AlgorithmsComeFromTheirHeader) {
    EXPECT_EQ(offenders("algorithms"), "");
    const std::string sorted = "void f(std::vector<int>& v) { std::sort(v.begin(), v.end()); }\n";
    EXPECT_EQ(offenders_among({{"src/a.cpp", "// std::sort()\n#include <algorithm>\n" + sorted},
                               {"src/b.cpp", "// std::sort(), with #include <algorithm>\n"},
                               {"src/c.cpp", sorted}},
                              "algorithms"),
              "src/c.cpp: uses std::sort, and does not include <algorithm>\n");
}

TEST_F(Structure, SuitesAreCalledAsTheirFiles) { EXPECT_EQ(offenders("suites"), ""); }

TEST_F(Structure, TiersNameTestsThatThereAre) { EXPECT_EQ(offenders("tiers"), ""); }

TEST_F(Structure, ChangedFilesHaveTests) { EXPECT_EQ(offenders("since"), ""); }

TEST_F(Structure, CommentsAreInPlainWords) { EXPECT_EQ(offenders("plain_words"), ""); }

TEST_F(Structure, LinesKeepTheirColumns) {
    const Finished f =
        run("git ls-files -z --cached --others --exclude-standard '*.cpp' '*.h' '*.cu' '*.cuh' '*.md' |"
            " xargs -0 ${PYTHON:-/usr/bin/python3} -B .ci/columns.py");
    EXPECT_EQ(f.code, 0) << f.err;
}

TEST_F(Structure, LongFilesAndFunctionsAreFound) {
    const std::string body(61, '\n');
    EXPECT_EQ(offenders_among({{"src/a.cpp", std::string(401, '\n')}}, "files"), "src/a.cpp: 401 lines, at most 400\n");
    const std::string cpp =
        "namespace n {\nA::A(int a)\n    : a_{a}, b_(\"}\") {" + body + "}\nvoid B::short_one() const {}\n}\n";
    EXPECT_EQ(offenders_among({{"src/a.cpp", cpp}}, "functions"),
              "src/a.cpp n::A::A: 63 lines from line 2, at most 60\n");
    EXPECT_EQ(offenders_among({{"a.py", "def f():\n" + body + "    return 1\n"}}, "functions"),
              "a.py f: 63 lines from line 1, at most 60\n");
    EXPECT_EQ(offenders_among({{"a.sh", "f() {\n" + body + "}\n"}}, "functions"),
              "a.sh f: 63 lines from line 1, at most 60\n");
}

TEST_F(Structure, TypesOfOneNameAreFoundUnlessOnlyOneFileCanNameThem) {
    const std::string seen = "namespace n {\nclass A final : public B {\n    struct C {};\n};\n}\n";
    const std::string hidden =
        "namespace n {\nnamespace {\nstruct A {};\n}\nvoid f() {\n    struct A {};\n}\nstruct A;\n}\n";
    EXPECT_EQ(offenders_among({{"src/a.h", seen}, {"src/b.cpp", hidden}}, "types"), "");
    EXPECT_EQ(offenders_among({{"src/a.h", seen}, {"src/b.h", seen}}, "types"),
              "n::A: defined in src/a.h and in src/b.h\nn::A::C: defined in src/a.h and in src/b.h\n");
}

TEST_F(Structure, TwoInlineDefinitionsOfOneNameAreFound) {
    const TempDir dir;
    write_file(dir.path("a.cpp"), "namespace convoy {\ninline int f() { return 1; }\nint a() { return f(); }\n}\n");
    write_file(dir.path("b.cpp"), "namespace convoy {\n\ninline int f() { return 2; }\nint b() { return f(); }\n}\n");
    write_file(dir.path("objects"), "a.o b.o\n");
    if (run("cd " + dir.path() + " && g++ -g1 -c a.cpp b.cpp && git init -q .").code != 0)
        GTEST_SKIP() << "no compiler";
    const Finished f = run("root=$PWD; cd " + dir.path() +
                           " && ALLOWED=/dev/null OBJECTS=objects ${PYTHON:-/usr/bin/python3} -B "
                           "$root/tests/structure/check.py symbols");
    EXPECT_EQ(f.code, 1) << f.err;
    EXPECT_EQ(f.out.find("_ZN6convoy1fEv: objects: "), 0u) << f.out;
}

TEST_F(Structure, FoldersThatIncludeOneAnotherAreFound) {
    const std::vector<std::pair<std::string, std::string>> files = {
        {"src/a/x.h", "#include \"b/y.h\"\n"}, {"src/b/y.h", "#include \"c/z.h\"\n"}, {"src/c/z.h", ""}};
    EXPECT_EQ(offenders_among(files, "cycles"), "");
    std::vector<std::pair<std::string, std::string>> closed = files;
    closed.push_back({"src/c/w.cpp", "#include \"a/x.h\"\n"});
    EXPECT_EQ(offenders_among(closed, "cycles"),
              "a -> b: src/a/x.h:1 includes b/y.h\nb -> c: src/b/y.h:1 includes c/z.h\n"
              "c -> a: src/c/w.cpp:1 includes a/x.h\n");
}

TEST_F(Structure, IncludesThatTheTableDoesNotNameAreFound) {
    const std::vector<std::pair<std::string, std::string>> files = {
        {"src/README.md",
         "| `a/` | x | |\n| `b/`, `c/` | x | a |\n| `d/` | x | all above but b |\n| `e/` | x | all above |\n"},
        {"src/a/x.h", ""},
        {"src/b/x.h", "#include \"a/x.h\"\n"},
        {"src/c/x.h", "#include \"b/x.h\"\n"},
        {"src/d/x.h", "#include \"a/x.h\"\n#include \"b/x.h\"\n#include \"c/x.h\"\n"},
        {"src/e/x.h", "#include \"b/x.h\"\n#include \"d/x.h\"\n"},
        {"src/f/x.h", "#include \"a/x.h\"\n"}};
    EXPECT_EQ(offenders_among(files, "rooms"),
              "c -> b: src/c/x.h:1 includes b/x.h\nd -> b: src/d/x.h:2 includes b/x.h\n"
              "f -> a: src/f/x.h:1 includes a/x.h\n");
}

TEST_F(Structure, SuitesOfOtherNamesAreFound) {
    EXPECT_EQ(offenders_among({{"tests/runs/resume_test.cpp", "TEST(Resume, A) {}\nTEST(ResumeOf, B) {}\n"}}, "suites"),
              "");
    EXPECT_EQ(offenders_among({{"tests/runs/resume_test.cpp", "TEST(Other, A) {}\n"}}, "suites"),
              "tests/runs/resume_test.cpp Other: suites of this file start with Resume\n");
}

TEST_F(Structure, CommentsThatAreNotInPlainWordsAreFound) {
    const std::string plain =
        "// Returns the sum\n// of a row.\nint f();  ///< [rows]\n// A blank line ends a comment.\n\n"
        "const char* s = \"What it has\";\n";
    EXPECT_EQ(offenders_among({{"src/a.cpp", plain}}, "plain_words"), "");
    const std::string cpp =
        "// Of a row.\nint n;  /"
        "/ the run\n/"
        "/ continues\n/"
        "// The run goes\n/"
        "// on anew.\n"
        "const char *a = \"the run\", *b = \"goes on\";\n";
    EXPECT_EQ(offenders_among({{"src/a.cpp", cpp}, {"jobs/a.sh", "#!/bin/sh\n# What it does.\n"}}, "plain_words"),
              "jobs 1: jobs/a.sh:2: What\nsrc 4: src/a.cpp:1: Of, src/a.cpp:3: goes on, src/a.cpp:3: anew, "
              "src/a.cpp:6: goes on\n");
}

TEST_F(Structure, AnExemptionThatIsNotNeededIsFound) {
    const TempDir dir;
    write_file(dir.path("allowed"), "files: src/a.cpp  # was long once\n");
    const Finished f = run("root=$PWD; cd " + dir.path() +
                           " && git init -q . && ALLOWED=allowed ${PYTHON:-/usr/bin/python3} -B "
                           "$root/tests/structure/check.py files");
    EXPECT_EQ(f.code, 1) << f.err;
    EXPECT_NE(f.out.find("remove the line"), std::string::npos) << f.out;
}

}  // namespace
}  // namespace convoy::test
