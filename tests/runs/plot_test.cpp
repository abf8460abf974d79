// convoy plot and src/plot/plot.py if python3 is not the one that make deps filled: they find that
// one, or report in one line what is missing. Run from the repository's root.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>

#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class Plot : public testing::Test {
protected:
    void SetUp() override {
        if (run("/usr/bin/python3 -c 'import h5py, matplotlib, numpy'").code != 0)
            GTEST_SKIP() << "/usr/bin/python3 lacks h5py or matplotlib";
        ASSERT_EQ("", failure(run("/usr/bin/python3 -m venv --without-pip " + dir_.path("venv"))));
        ASSERT_NE(run(bare_ + " -c 'import h5py'").code, 0) << "the test's own Python must lack it";
        std::filesystem::create_directories(run_);
        Metrics m(run_);
        for (int step = 1; step <= 3; ++step) m.add(TrainRow{step, 1, 2.0 / step, 0.5, 0.1, 0.02, 0.001, 0.004});
        m.publish();
    }
    /// Runs a command where python3 has no packages, like those of pyenv and conda.
    Finished elsewhere(const std::string& command, const std::string& python = "") {
        const std::string named = python.empty() ? "env -u PYTHON" : "env PYTHON=" + python;
        return run(with_limit(named + " PATH=" + dir_.path("venv/bin") + ":$PATH " + command, 60));
    }
    void expect_picture() {
        const std::string picture = run_ + "/metrics.png";
        ASSERT_TRUE(std::filesystem::exists(picture));
        EXPECT_EQ(read_file(picture).substr(1, 3), "PNG");
    }
    TempDir dir_;
    std::string run_ = dir_.path("run"), bare_ = dir_.path("venv/bin/python3"), convoy_ = sibling("convoy");
};

TEST_F(Plot, ConvoyFindsAPythonThatHasThePackages) {
    const Finished f = elsewhere(convoy_ + " plot " + run_);
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(f.out, run_ + "/metrics.png\n");
    expect_picture();
    const Finished piped = elsewhere("bash -c '" + convoy_ + " plot --scaling - --out " + dir_.path("s.png") +
                                     " < tests/golden/report/scaling.json'");
    EXPECT_EQ("", failure(piped));
    EXPECT_EQ(read_file(dir_.path("s.png")).substr(1, 3), "PNG");
}

TEST_F(Plot, EndsQuietlyWithItsReader) {
    const Finished f = run("(" + convoy_ + " plot " + run_ + "; echo $? >" + dir_.path("code") + ") | true");
    EXPECT_EQ(f.err, "");
    EXPECT_EQ(read_file(dir_.path("code")), std::to_string(128 + SIGPIPE) + "\n");
    expect_picture();
}

TEST_F(Plot, APythonThatIsNamedIsTakenOrRefused) {
    EXPECT_EQ("", failure(elsewhere(convoy_ + " plot " + run_, "/usr/bin/python3")));
    EXPECT_EQ("", refusal(elsewhere(convoy_ + " plot " + run_, bare_), Exit::usage,
                          {bare_, "h5py, matplotlib and numpy", "src/plot/requirements.txt", "PYTHON="}));
}

// `python -c` would look for modules in the current folder first. Some Pythons load importlib.util
// at their start, as Debian's does, and would not show that.
TEST_F(Plot, NoModuleOfTheCurrentFolderIsImportedWhenAPythonIsTried) {
    const std::string here = dir_.path("here"), ran = dir_.path("ran");
    for (const char* module : {"importlib/__init__.py", "importlib/util.py", "h5py.py"})
        write_file(here + "/" + module, "open('" + ran + "', 'a').write('" + module + "')\nraise SystemExit(9)\n");
    if (run("cd " + here + " && " + bare_ + " -c 'import importlib.util'").code == 0)
        GTEST_SKIP() << "this Python has loaded importlib.util before it looks in the current folder";
    std::filesystem::remove(ran);
    const std::string plot = "PYTHON=" + bare_ + " " + std::filesystem::absolute(convoy_).string() + " plot " + run_;
    EXPECT_EQ("", refusal(run("cd " + here + " && " + plot), Exit::usage, {"cannot import h5py"}));
    EXPECT_FALSE(std::filesystem::exists(ran)) << read_file(ran);
}

// The message names the packages that the file it names needs.
TEST_F(Plot, TheScriptSaysWhatItsPythonLacks) {
    const Finished f = elsewhere("python3 src/plot/plot.py " + run_);
    EXPECT_EQ(f.code, 2);
    EXPECT_EQ(f.out, "");
    EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
    std::smatch m;
    ASSERT_TRUE(std::regex_search(
        f.err, m,
        std::regex("^plot.py: (\\S+) has no (\\w+), (\\w+), (\\w+); use (\\S+), .* -m pip install -r (\\S+)\n")))
        << f.err;
    EXPECT_EQ(m[1], bare_);
    EXPECT_EQ("", failure(run(m[5].str() + " src/plot/plot.py " + run_))) << "the Python that it recommends";
    expect_picture();
    const std::string requirements = "\n" + read_file(m[6]);
    for (int i = 2; i <= 4; ++i) EXPECT_NE(requirements.find("\n" + m[i].str()), std::string::npos) << m[i];
    const Finished trace = elsewhere("python3 src/plot/timeline.py none.json");
    EXPECT_NE(trace.code, 0);
    EXPECT_EQ(count(trace.err, "\n"), 1) << trace.err;
    EXPECT_EQ(count(trace.err, bare_ + " has no h5py, matplotlib, numpy"), 1) << trace.err;
}

// The command that a training suggests next works in the same folder.
TEST_F(Plot, TheCommandThatATrainingPrintsDraws) {
    make_data(dir_.path("data"), 60, 10, "28x28x1");
    const Finished trained = launch(
        2, "train --model mnist-linear --batch-size 20 --data " + dir_.path("data") + " --overwrite --output " + run_);
    ASSERT_EQ("", failure(trained));
    std::smatch m;
    ASSERT_TRUE(std::regex_search(trained.out, m, std::regex("draw it: ([^\r\n]+)"))) << trained.out;
    EXPECT_EQ("", failure(elsewhere(m[1])));
    expect_picture();
}

// make run's script on a small data set instead of the sample: it draws, and the commands that it
// suggests work, also for root.
TEST_F(Plot, TheCommandThatMakeRunEndsWithWorks) {
    make_data(dir_.path("input/cifar10-sample"), 8, 4, "32x32x3");
    ASSERT_EQ(run("cp -r input/run.sh input/recipes " + dir_.path("input")).code, 0);
    const std::string settings =
        "BUILD=" + std::filesystem::path(convoy_).parent_path().string() + " 'RUN=" + run_ + "-ne $xt' NP=1";
    const Finished f =
        elsewhere("env " + settings + " bash " + dir_.path("input/run.sh") + " --max-steps 1 --batch-size 4");
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(read_file(run_ + "-ne $xt/metrics.png").substr(1, 3), "PNG");
    std::smatch m;
    ASSERT_TRUE(std::regex_search(f.out, m, std::regex("next: (.*)\n$"))) << f.out;
    const Finished next =
        run("cd " + dir_.path() + " && unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM && " +
            with_limit(m[1], 60));
    EXPECT_EQ("", failure(next));
    EXPECT_EQ(score_of(next.out).images, 4) << next.out;
}

TEST_F(Plot, TheDifferenceOfTwoRunsIsThatOfTheirLosses) {
    const auto like_run = [&](const std::string& name, double more, int steps) {
        std::filesystem::create_directories(dir_.path(name));
        Metrics m(dir_.path(name));
        m.event(2, "restart", "1 rank");
        for (int step = 1; step <= steps; ++step)
            m.add(TrainRow{step, 1, 2.0 / step + (step == 2 ? more : 0), 0.5, 0.1, 0.02, 0.001, 0.004});
        m.publish();
    };
    like_run("same", 0, 3);
    like_run("other", -0.25, 2);
    for (const auto& [name, words] :
         std::map<std::string, std::string>{{"same", "largest difference of train/loss: 0 nat over 3 steps\n"},
                                            {"other", "largest difference of train/loss: 0.25 nat over 2 steps\n"}}) {
        const Finished f = elsewhere(convoy_ + " plot --difference " + run_ + " " + dir_.path(name));
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(f.out, words + run_ + "/metrics.png\n");
        expect_picture();
    }
}

TEST_F(Plot, MistakesAreOneLine) {
    for (const auto& [arguments, code, word] :
         std::vector<std::tuple<std::string, int, std::string>>{{"plot", 2, "which run?"},
                                                                {"plot none", 3, "none"},
                                                                {"plot /dev/zero", 3, "not a regular file"},
                                                                {"plot --difference " + run_, 2, "two runs"},
                                                                {"plot " + run_ + " --ou x", 2, "usage"},
                                                                {"plot " + run_ + " --out /proc/x", 5, "/proc/x"}}) {
        const Finished f = elsewhere(convoy_ + " " + arguments);
        EXPECT_EQ(f.code, code) << arguments << "\n" << f.err;
        EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
        EXPECT_NE(f.err.find(word), std::string::npos) << f.err;
    }
    const Finished help = elsewhere(convoy_ + " plot --help");
    EXPECT_EQ("", failure(help));
    EXPECT_NE(help.out.find("usage: convoy plot RUN..."), std::string::npos);
    EXPECT_NE(convoy_alone("--help").out.find("\n  plot "), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
