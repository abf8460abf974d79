// convoy plot and src/plot/*.py while another user exchanges files and folders. The Python that the
// tests name exchanges them, after `convoy plot` has checked them. Run from the repository's root.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "run/metrics.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class PlotExchanged : public testing::Test {
protected:
    void SetUp() override {
        if (run("/usr/bin/python3 -c 'import h5py, matplotlib, numpy'").code != 0)
            GTEST_SKIP() << "/usr/bin/python3 lacks h5py or matplotlib";
        fs::create_directories(run_);
        Metrics m(run_);
        for (int step = 1; step <= 3; ++step) m.add(TrainRow{step, 1, 2.0 / step, 0.5, 0.1, 0.02, 0.001, 0.004});
        m.publish();
        write_file(thesis_ + "/metrics.png", "precious");
        write_file(thesis_ + "/x.png", "precious");
    }
    /// Runs `convoy plot`, and the shell command `meanwhile` when its Python starts.
    Finished plot(const std::string& arguments, const std::string& meanwhile) {
        write_file(dir_.path("python"), "#!/bin/sh\ncd " + dir_.path() + "\ncase $1 in *plot.py) " + meanwhile +
                                            ";; esac\nexec /usr/bin/python3 \"$@\"\n");
        fs::permissions(dir_.path("python"), fs::perms::all);
        return run(
            with_limit("env PYTHON=" + dir_.path("python") + " " + sibling("convoy") + " plot " + arguments, 60));
    }
    /// Runs a script that exchanges `folder` for a link to the thesis when it has called `reader`.
    Finished script(const std::string& name, const std::string& reader, const std::string& folder,
                    const std::string& arguments) {
        write_file(dir_.path("driver.py"), R"(import os, sys
sys.dont_write_bytecode = True
sys.path.append("src/plot")
name, reader, folder, thesis = sys.argv[1:5]
sys.argv[:5] = [name]
sys.path.insert(0, "")
script = __import__(name)
read = getattr(script, reader)
def read_and_exchange(*arguments):
    found = read(*arguments)
    os.rename(folder, folder + ".was")
    os.symlink(thesis, folder)
    return found
setattr(script, reader, read_and_exchange)
script.main()
)");
        std::string words;
        for (const std::string& word : {name, reader, folder, thesis_}) words += " " + word;
        return run(with_limit("/usr/bin/python3 " + dir_.path("driver.py") + words + " " + arguments, 60));
    }
    void expect_thesis_as_it_was() {
        for (const char* name : {"metrics.png", "x.png"}) EXPECT_EQ(read_file(thesis_ + "/" + name), "precious");
        EXPECT_EQ(std::distance(fs::directory_iterator(thesis_), {}), 2);
    }
    void expect_picture(const std::string& path) {
        ASSERT_TRUE(fs::is_regular_file(path)) << path;
        EXPECT_EQ(read_file(path).substr(1, 3), "PNG");
    }
    TempDir dir_;
    const std::string run_ = dir_.path("run"), thesis_ = dir_.path("thesis"), metrics_ = run_ + "/metrics.h5";
};

// Python's HDF5 crashes on the second file.
TEST_F(PlotExchanged, TheFileThatWasCheckedIsDrawn) {
    const std::string bad = dir_.path("bad");
    for (const std::string& argument : {run_, metrics_}) {
        fs::copy_file(metrics_, bad);
        change_structure(bad, {"BTHD", 0, 10, 2, 0});
        fs::copy_file(metrics_, dir_.path("whole"));
        EXPECT_EQ("", failure(plot(argument, "mv bad run/metrics.h5")));
        EXPECT_FALSE(fs::exists(bad)) << "was exchanged";
        expect_picture(run_ + "/metrics.png");
        fs::remove(run_ + "/metrics.png");
        fs::rename(dir_.path("whole"), metrics_);
    }
    record_fault("a metric file exchanged after `plot` has checked it", "the file that was checked is drawn",
                 "as promised", 2);
}

TEST_F(PlotExchanged, WhatWasNotCheckedIsRefused) {
    const auto expect_refused = [&](const std::string& meanwhile) {
        const Finished f = plot(run_, meanwhile);
        EXPECT_EQ(f.code, int(Exit::bad_input));
        EXPECT_EQ(f.err, "plot.py: " + metrics_ + ": was exchanged while the command began; draw it again\n");
    };
    fs::rename(metrics_, dir_.path("late"));
    expect_refused("cp late run/metrics.h5");
    fs::remove(metrics_);
    ASSERT_EQ(::mkfifo(metrics_.c_str(), 0600), 0);
    expect_refused("mv late run/metrics.h5");
}

// Another user may put a pipe in the place of a file that was looked at; a pipe may never begin.
TEST_F(PlotExchanged, APipeIsNotWaitedFor) {
    write_file(dir_.path("driver.py"), R"(import importlib, os, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["", "src/plot"]
name, looks, path = sys.argv[1:4]
sys.argv[:4] = [name]
module = importlib.import_module(looks)
look = module.refuse_special
def look_and_exchange(*arguments):
    look(*arguments)
    os.rename(path, path + ".was")
    os.mkfifo(path)
module.refuse_special = look_and_exchange
importlib.import_module(name).main()
)");
    const std::string trace = dir_.path("trace.json");
    write_file(trace, "{}");
    const auto expect_refused = [&](const std::string& words, const std::string& argument) {
        const Finished f = run(with_limit("/usr/bin/python3 " + dir_.path("driver.py") + " " + words + argument, 20));
        EXPECT_EQ(f.code, int(Exit::bad_input)) << words;
        EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
    };
    expect_refused("timeline timeline ", trace + " " + trace);
    expect_refused("plot convoy_plot_metrics ", metrics_ + " " + metrics_);
}

TEST_F(PlotExchanged, APipeOfAnotherUserIsNotRead) {
    const std::string pipe = dir_.path("cells"), plot = "/usr/bin/python3 src/plot/plot.py --scaling ";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
    const std::string cells = R"([{"out_of_memory": false, "samples_per_second": 1, "source": "Convoy", "model": "m",
        "precision": "f32", "image_size": "8x8", "device": "gpu", "batch": 1, "ranks": 1, "efficiency": 1}])";
    write_file(dir_.path("cells.json"), cells);
    const std::string out = " --out " + dir_.path("a.png");
    EXPECT_EQ("", failure(run(with_limit(plot + "<(sleep 0.2; cat " + dir_.path("cells.json") + ")" + out, 20))));
    expect_picture(dir_.path("a.png"));
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make a pipe of another user";
    ASSERT_EQ(::chown(pipe.c_str(), 65534, 65534), 0);
    const Finished f = run(with_limit(plot + pipe + out, 20));
    EXPECT_EQ(f.code, int(Exit::bad_input));
    EXPECT_EQ(f.err, "plot.py: " + pipe + ": is a pipe of another user, which may never end\n");
}

TEST_F(PlotExchanged, ThePictureGoesIntoTheFolderOfTheMetrics) {
    EXPECT_EQ("", failure(plot(run_, "mv run was && ln -s thesis run")));
    expect_picture(dir_.path("was/metrics.png"));
    expect_thesis_as_it_was();
    fs::remove(run_);
    fs::rename(dir_.path("was"), run_);
    EXPECT_EQ("", failure(script("plot", "load_runs", run_, run_))) << "without convoy plot";
    expect_picture(run_ + ".was/metrics.png");
    expect_thesis_as_it_was();
}

TEST_F(PlotExchanged, APictureGoesIntoTheFolderOfTheStart) {
    const std::string pictures = dir_.path("pictures"), was = pictures + ".was";
    fs::create_directories(pictures);
    EXPECT_EQ("", failure(script("plot", "load_runs", pictures, run_ + " --out " + pictures + "/x.png")));
    expect_picture(was + "/x.png");
    fs::remove(pictures);
    fs::rename(was, pictures);
    fs::remove(pictures + "/x.png");
    write_file(dir_.path("trace.json"),
               R"({"otherData": {"bench": "m", "precision": "f32", "image_size": "8x8", "batch_per_rank": 1,
                   "threads": 1}, "traceEvents": [
                   {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
                   {"ph": "X", "name": "conv", "cat": "conv forward", "pid": 0, "ts": 0, "dur": 9}]})");
    EXPECT_EQ("",
              failure(script("timeline", "read", pictures, dir_.path("trace.json") + " --out " + pictures + "/x.png")));
    expect_picture(was + "/x.png");
    expect_thesis_as_it_was();
    record_fault("the folder of a picture exchanged for a link while the runs are read",
                 "`plot`, `timeline.py`: nothing behind the link is replaced", "as promised", 4);
}

// The system then names it "convoy (deleted)", and another user may have made a file of that name.
TEST_F(PlotExchanged, ARemovedExecutableHasNoScriptsOfAnotherUser) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's files";
    const std::string copy = dir_.path("bin/convoy"), named = copy + " (deleted)", ran = dir_.path("ran"),
                      script = dir_.path("src/plot/plot.py"), library = dir_.path("remove.so");
    write_file(named, "");
    write_file(script, "open('" + ran + "', 'w')\nraise SystemExit(9)\n");
    for (const std::string& path : {named, dir_.path("src"), dir_.path("src/plot"), script})
        ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    write_file(dir_.path("remove.c"),
               "#include <unistd.h>\n__attribute__((constructor)) static void before_main(void) { "
               "unlink(\"" +
                   copy + "\"); }\n");
    if (run("cc -shared -fPIC -o " + library + " " + dir_.path("remove.c")).code != 0) GTEST_SKIP() << "no C compiler";
    fs::copy_file(sibling("convoy"), copy);
    EXPECT_EQ("", failure(run(with_limit("env ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=" +
                                             library + " " + copy + " plot " + run_,
                                         60))));
    EXPECT_FALSE(fs::exists(copy));
    EXPECT_FALSE(fs::exists(ran));
    expect_picture(run_ + "/metrics.png");
}

}  // namespace
}  // namespace convoy::test
