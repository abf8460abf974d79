// Plots in folders and of runs that a stranger made: none of their code runs, and no other file is
// read or written. Run from the repository's root.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "run/metrics.h"
#include "tests/fuzz/hdf5.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class PlotStrangers : public testing::Test {
protected:
    void SetUp() override {
        if (run(python_ + " -c 'import h5py, matplotlib, numpy'").code != 0)
            GTEST_SKIP() << python_ << " lacks h5py or matplotlib";
        write_run("run");
        fs::create_directories(here_);
    }
    void write_run(const std::string& name) {
        fs::create_directories(dir_.path(name));
        Metrics m(dir_.path(name));
        m.run_attribute("steps_per_epoch", int64_t(3));
        m.add(RankRow{0, "a$\\frac{$b", "CPU", 1});
        for (int step = 1; step <= 3; ++step) m.add(TrainRow{step, 1, 2.0 / step, 0.5, 0.1, 0.02, 0.001, 0.004});
        m.add(EvalRow{3, 1, 1.5, 0.4, 0.3});
        for (int rank = 0; rank < 2; ++rank) m.add(RankEpochRow{1, rank, 0.1, 1.0, 0.5});
        m.event(3, "restart", "1 rank");
        m.publish();
    }
    /// Runs a command in the stranger's folder.
    Finished there(const std::string& command) {
        return run("cd '" + here_ + "' && " + with_limit("env -u PYTHON " + command, 60));
    }
    /// Returns Python code that records who ran it.
    std::string mark(const std::string& who) const {
        return "open('" + ran_ + "', 'a').write('" + who + "\\n')\nraise SystemExit(9)\n";
    }
    void expect_picture(const std::string& path) {
        ASSERT_TRUE(fs::is_regular_file(fs::symlink_status(path))) << path;
        EXPECT_EQ(read_file(path).substr(1, 3), "PNG");
    }
    /// Writes a trace like `convoy bench --timeline`.
    std::string trace() {
        write_file(dir_.path("trace.json"),
                   R"({"otherData": {"bench": "m", "precision": "f32", "image_size": "8x8", "batch_per_rank": 1,
                       "threads": 1}, "traceEvents": [
                       {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank $\\frac{$"}},
                       {"ph": "X", "name": "conv", "cat": "conv forward", "pid": 0, "ts": 0, "dur": 9}]})");
        return dir_.path("trace.json");
    }

    TempDir dir_;
    const std::string python_ = "/usr/bin/python3", convoy_ = fs::absolute(sibling("convoy")).string();
    const std::string scripts_ = fs::absolute("src/plot").string();
    const std::string run_ = dir_.path("run"), here_ = dir_.path("here"), ran_ = dir_.path("ran");
};

// Modules are in the current folder as files, and beside the scripts as folders, like runs.
TEST_F(PlotStrangers, NoModuleOfTheirsIsImported) {
    const std::string copy = dir_.path("scripts");
    fs::copy(scripts_, copy);
    for (const std::string name : {"random",           "json",          "statistics",  "importlib",
                                   "argparse",         "secrets",       "trace",       "signal",
                                   "tempfile",         "warnings",      "h5py",        "numpy",
                                   "matplotlib",       "PIL",           "os",          "posix",
                                   "sitecustomize",    "usercustomize", "tensorboard", "convoy_plot_base",
                                   "convoy_plot_files"}) {
        write_file(here_ + "/" + name + ".py", mark(name));
        if (!name.starts_with("convoy") && name != "tensorboard")
            write_file(copy + "/" + name + "/__init__.py", mark(name + " beside the script"));
    }
    const std::string plot = " " + run_ + " --out " + dir_.path("a.png");
    EXPECT_EQ("", failure(there(convoy_ + " plot" + plot)));
    EXPECT_EQ("", failure(there("PYTHONPATH=.: " + convoy_ + " plot" + plot)));
    EXPECT_EQ("", failure(there(python_ + " " + copy + "/plot.py" + plot)));
    EXPECT_EQ("", failure(there(python_ + " " + copy + "/timeline.py " + trace())));
    there(python_ + " " + copy + "/to_tensorboard.py " + run_);
    EXPECT_FALSE(fs::exists(ran_)) << read_file(ran_);
    expect_picture(dir_.path("a.png"));
    expect_picture(dir_.path("trace.png"));
    record_fault("Python modules in the current folder and beside a run", "none is imported by `plot` and its scripts",
                 "as promised", 5);
}

// matplotlib runs fc-list if it does not know the machine's fonts yet.
TEST_F(PlotStrangers, NoProgramOfTheCurrentFolderIsRun) {
    for (const std::string name : {"python3", "fc-list"}) {
        write_file(here_ + "/" + name, "#!/bin/sh\necho " + name + " >>" + ran_ + "\nexit 0\n");
        fs::permissions(here_ + "/" + name, fs::perms::all);
    }
    EXPECT_EQ("", failure(there("PATH=.::$PATH MPLCONFIGDIR=" + dir_.path("fonts") + " " + convoy_ + " plot " + run_)));
    EXPECT_FALSE(fs::exists(ran_)) << read_file(ran_);
    EXPECT_EQ("", failure(there("PYTHON=./python3 " + convoy_ + " plot " + run_))) << "what the user names is run";
    EXPECT_TRUE(fs::exists(ran_));
}

TEST_F(PlotStrangers, TheirMatplotlibrcIsNotObeyed) {
    const auto picture = [&](const std::string& settings) {
        EXPECT_EQ("", failure(there(settings + convoy_ + " plot " + run_)));
        return read_file(run_ + "/metrics.png");
    };
    const std::string before = picture("");
    write_file(here_ + "/matplotlibrc", "figure.facecolor: red\ntext.usetex: True\n");
    EXPECT_TRUE(picture("") == before);
    EXPECT_FALSE(picture("MATPLOTLIBRC=" + here_ + "/matplotlibrc ") == before) << "the user's own is";
}

// An executable that was copied, or built elsewhere, has no checkout around it.
TEST_F(PlotStrangers, ScriptsAreThoseOfTheExecutablesOwnCheckout) {
    for (const std::string script : {"src/plot/plot.py", "output/plot.py"})
        write_file(here_ + "/" + script, mark(script));
    fs::create_directories(dir_.path("bin"));
    const std::string copy = dir_.path("bin/convoy");
    fs::copy(convoy_, copy);
    EXPECT_EQ("", failure(there(copy + " plot " + run_)));
    expect_picture(run_ + "/metrics.png");
    EXPECT_FALSE(fs::exists(ran_)) << read_file(ran_);
    EXPECT_EQ("", refusal(there("CONVOY_HOME=/nowhere " + copy + " plot " + run_), Exit::bad_input,
                          {"src/plot/plot.py", "CONVOY_HOME="}));
    EXPECT_EQ(there("CONVOY_HOME=" + here_ + " " + copy + " plot " + run_).code, 9) << "what the user names is run";
}

// In /tmp or /scratch an executable's folder may be beside other users' folders.
TEST_F(PlotStrangers, ScriptsOfAnotherUserAreNotRun) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's files";
    fs::create_directories(dir_.path("bin"));
    const std::string copy = dir_.path("bin/convoy"), script = dir_.path("src/plot/plot.py");
    fs::copy(convoy_, copy);
    write_file(script, mark("another user"));
    for (const std::string& path : {dir_.path("src"), dir_.path("src/plot"), script}) {
        ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
        EXPECT_EQ("", failure(there(copy + " plot " + run_))) << path;
        ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
    }
    EXPECT_FALSE(fs::exists(ran_));
    expect_picture(run_ + "/metrics.png");
    EXPECT_EQ(there(copy + " plot " + run_).code, 9) << "the user's own is run";
    record_fault("scripts of another user beside the executable's folder", "not run", "as promised", 3);
}

// Others can move a run's folder that they may write to there, and it still belongs to the user.
TEST_F(PlotStrangers, ScriptsThatOthersCanHaveMovedThereAreNotRun) {
    fs::create_directories(dir_.path("bin"));
    const std::string copy = dir_.path("bin/convoy"), source = dir_.path("src");
    fs::copy(convoy_, copy);
    write_file(source + "/plot/plot.py", mark("moved"));
    const auto ran = [&](unsigned home, unsigned folder) {
        fs::permissions(dir_.path(), fs::perms(home));
        fs::permissions(source, fs::perms(folder));
        return there(copy + " plot " + run_).code == 9;
    };
    EXPECT_FALSE(ran(01777, 0775));
    EXPECT_FALSE(ran(01775, 02775)) << "a group's folder";
    EXPECT_FALSE(ran(0777, 0775));
    EXPECT_FALSE(fs::exists(ran_));
    EXPECT_TRUE(ran(01777, 0755)) << "no other user may move it";
    EXPECT_TRUE(ran(0775, 0775)) << "a checkout of umask 002";
    record_fault("a moved folder of the user as the scripts of `plot`", "not run", "as promised", 3);
}

// Others own the folder above, but cannot replace the executable if its folder is a mount point.
TEST_F(PlotStrangers, ScriptsOfTheOwnerOfAFolderAboveAreNotRun) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's files";
    fs::create_directories(dir_.path("bin"));
    const std::string copy = dir_.path("bin/convoy"), script = dir_.path("src/plot/plot.py");
    fs::copy(convoy_, copy);
    write_file(script, mark("another user"));
    for (const std::string& path : {dir_.path(), dir_.path("src"), dir_.path("src/plot"), script})
        ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    EXPECT_EQ("", failure(there(copy + " plot " + run_)));
    EXPECT_FALSE(fs::exists(ran_));
    ASSERT_EQ(::chown(dir_.path("bin").c_str(), 65534, 65534), 0);
    EXPECT_EQ(there(copy + " plot " + run_).code, 9) << "a checkout whose owner can replace the executable";
}

// Others may write into the folder of a group's checkout. The scripts of the executable's sources
// are run instead.
TEST_F(PlotStrangers, ScriptsBesideAFileOfAnotherUserAreNotRun) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's files";
    fs::create_directories(dir_.path("bin"));
    const std::string copy = dir_.path("bin/convoy"), folder = dir_.path("src/plot");
    fs::copy(convoy_, copy);
    fs::create_directories(dir_.path("src"));
    fs::copy(scripts_, folder, fs::copy_options::recursive);
    const std::string module = folder + "/convoy_plot_files.py", own = folder + "/own/__init__.py";
    const std::string link = folder + "/link.py", swap = folder + "/.plot.py.swp";
    write_file(module, mark("a module"));
    EXPECT_EQ(there(copy + " plot " + run_).code, 9) << "the user's own is run";
    for (const std::string& path : {own, swap}) write_file(path, "");
    fs::create_symlink(module, link);
    ASSERT_EQ(::lchown(swap.c_str(), 65534, 65534), 0);
    EXPECT_EQ(there(copy + " plot " + run_).code, 9) << "no module begins with a dot";
    fs::remove(ran_);
    const bool may_mount = run("unshare -m mount -t tmpfs none " + here_).code == 0;
    for (const std::string& path : {module, own, link}) {
        ASSERT_EQ(::lchown(path.c_str(), 65534, 65534), 0);
        EXPECT_EQ("", failure(there(copy + " plot " + run_))) << path;
        expect_picture(run_ + "/metrics.png");
        if (may_mount) {  // without these sources, no scripts are left
            const std::string command = copy + " plot " + run_;
            EXPECT_EQ("",
                      refusal(there("unshare -m sh -c 'mount -t tmpfs none " + scripts_ + " && exec " + command + "'"),
                              Exit::bad_input, {path + ": ", "src/plot/plot.py could", "CONVOY_HOME="}));
        }
        ASSERT_EQ(::lchown(path.c_str(), 0, 0), 0);
    }
    EXPECT_FALSE(fs::exists(ran_));
    record_fault("files of another user beside the scripts of `plot`", "the scripts are not run", "as promised", 3);
}

// Python would not compare such byte code with the module beside which it is.
TEST_F(PlotStrangers, NoByteCodeBesideTheScriptsIsRun) {
    const std::string copy = dir_.path("scripts"), path = "import sys; sys.path.append('" + copy + "'); ";
    fs::copy(scripts_, copy);
    for (const std::string module : {"convoy_plot_files", "convoy_plot_base", "convoy_plot_metrics"}) {
        write_file(dir_.path("planted.py"), mark(module));
        ASSERT_EQ("", failure(there(python_ + " -c \"import importlib.util as u, py_compile as p; p.compile('" +
                                    dir_.path("planted.py") + "', u.cache_from_source('" + copy + "/" + module +
                                    ".py'), invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)\"")));
        EXPECT_EQ(there(python_ + " -c \"" + path + "import " + module + "\"").code, 9)
            << "else this test shows nothing";
    }
    fs::remove(ran_);
    EXPECT_EQ("", failure(there(python_ + " " + copy + "/plot.py " + run_)));
    EXPECT_EQ("", failure(there(python_ + " " + copy + "/timeline.py " + trace())));
    there(python_ + " " + copy + "/to_tensorboard.py " + run_);
    EXPECT_FALSE(fs::exists(ran_)) << read_file(ran_);
    expect_picture(run_ + "/metrics.png");
    record_fault("byte code in `__pycache__` of the scripts of `plot`", "not run", "as promised", 3);
}

// The link may lead to the user's own scripts when it is looked at, and elsewhere a moment later.
TEST_F(PlotStrangers, LinksOfAnotherUserToScriptsAreNotFollowed) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's links";
    fs::create_directories(dir_.path("bin"));
    const std::string copy = dir_.path("bin/convoy"), link = dir_.path("src"), own = dir_.path("own");
    fs::copy(convoy_, copy);
    write_file(own + "/plot/plot.py", mark("through a link"));
    fs::create_directory_symlink(own, link);
    EXPECT_EQ(there(copy + " plot " + run_).code, 9) << "the user's own link is followed";
    fs::remove(ran_);
    ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
    EXPECT_EQ("", failure(there(copy + " plot " + run_)));
    fs::remove(link);
    fs::create_directories(link + "/plot");
    fs::create_symlink(own + "/plot/plot.py", link + "/plot/plot.py");
    ASSERT_EQ(::lchown((link + "/plot/plot.py").c_str(), 65534, 65534), 0);
    EXPECT_EQ("", failure(there(copy + " plot " + run_)));
    EXPECT_FALSE(fs::exists(ran_));
    expect_picture(run_ + "/metrics.png");
    record_fault("another user's links to scripts beside the executable's folder", "not followed", "as promised", 2);
}

// A separate process reads each, because it may crash.
TEST_F(PlotStrangers, MetricsThatConvoyDoesNotWriteAreRefused) {
    fs::create_directories(dir_.path("hostile"));
    const Finished made =
        run(python_ + " tests/support/hostile_metrics.py " + run_ + "/metrics.h5 " + dir_.path("hostile"));
    ASSERT_EQ("", failure(made));
    write_file(dir_.path("read.py"), R"(import os, resource, sys
sys.dont_write_bytecode = True
sys.argv[0] = "plot.py"
sys.path.append("src/plot")
sys.path.insert(0, "")
import plot
plot.Run(sys.argv[2])  # the sound one
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
for kind in sys.argv[3:]:
    print(kind, end=": ", flush=True)
    if os.fork() == 0:
        os.dup2(1, 2)
        plot.Run(os.path.join(sys.argv[1], kind))
    code = os.wait()[1]
    print("ends with", code >> 8 if code & 127 == 0 else -code, flush=True)
)");
    std::string kinds = made.out;
    std::replace(kinds.begin(), kinds.end(), '\n', ' ');
    const Finished f = run(
        with_limit(python_ + " " + dir_.path("read.py") + " " + dir_.path("hostile") + " " + run_ + " " + kinds, 60));
    ASSERT_EQ("", failure(f));
    EXPECT_GE(count(kinds, " "), 30);
    EXPECT_EQ(count(f.out, "ends with 3\n"), count(kinds, " ")) << f.out;
    EXPECT_EQ(count(f.out, "\n"), 2 * count(kinds, " ")) << "one line each: " << f.out;
    EXPECT_EQ(count(f.out, "secret"), 0);
    EXPECT_EQ(count(f.out, "metrics.h5: "), count(kinds, " ")) << f.out;
    record_fault("metric files with links, foreign storage, filters, short chunks or impossible sizes",
                 "`plot`: one line, exit 3; nothing of another file is read", "all refused", count(kinds, " "));
}

// Python's HDF5 would crash.
TEST_F(PlotStrangers, MetricsWhoseStructureContradictsItselfAreRefused) {
    const std::string metrics = run_ + "/metrics.h5", whole = read_file(metrics);
    int refused = 0;
    for (const StructureChange& change :
         {StructureChange{"BTHD", 0, 10, 2, 0}, {"BTHD", 0, 6, 4, 64}, {"FRHP", 0, 110, 2, 0}, {"FRHP", 0, 5, 2, 3}}) {
        write_file(metrics, whole);
        change_structure(metrics, change);
        for (const std::string& run : {run_, metrics})
            refused += refusal(there(convoy_ + " plot " + run), Exit::bad_input,
                               {metrics, "is not as convoy stores it"}) == "";
    }
    EXPECT_EQ(refused, 8);
    record_fault("metrics whose structure contradicts itself, under right checksums", "`plot`: one line, exit 3",
                 "as promised", refused);
}

// HDF5 finds a file that begins behind a block of the user's; the checks of the structure do not.
TEST_F(PlotStrangers, MetricsBehindAUsersBlockAreRefused) {
    const std::string metrics = run_ + "/metrics.h5", whole = read_file(metrics);
    for (const size_t block : {512, 1024, 8192}) {
        write_file(metrics, std::string(block, ' ') + whole);
        for (const std::string& run : {run_, metrics})
            EXPECT_EQ("", refusal(there(convoy_ + " plot " + run), Exit::bad_input, {metrics})) << block;
        const Finished script = there(python_ + " " + scripts_ + "/plot.py " + run_);
        EXPECT_EQ(script.code, int(Exit::bad_input)) << script.err;
        EXPECT_NE(script.err.find("its HDF5 format is not the one that Convoy writes"), std::string::npos);
    }
}

TEST_F(PlotStrangers, APictureTakesThePlaceOfALink) {
    const std::string precious = dir_.path("precious"), picture = run_ + "/metrics.png";
    write_file(precious, "precious");
    fs::create_symlink(precious, picture);
    EXPECT_EQ("", failure(there(convoy_ + " plot " + run_)));
    expect_picture(picture);
    fs::remove(picture);
    ASSERT_EQ(::mkfifo(picture.c_str(), 0600), 0);
    EXPECT_EQ("", failure(there(convoy_ + " plot " + run_)));
    expect_picture(picture);
    const std::string timeline = trace();
    fs::create_symlink(precious, dir_.path("trace.png"));
    EXPECT_EQ("", failure(there(python_ + " " + scripts_ + "/timeline.py " + timeline)));
    expect_picture(dir_.path("trace.png"));
    EXPECT_EQ(read_file(precious), "precious");
    record_fault("a link or a pipe where a picture goes", "replaced; what it leads to stays", "as promised", 3);
    // A folder in place of the picture stays, and no file is left beside it.
    fs::remove(picture);
    fs::create_directories(picture);
    EXPECT_EQ(there(convoy_ + " plot " + run_).code, 5);
    for (const auto& entry : fs::directory_iterator(run_))
        EXPECT_EQ(entry.path().string().find("partial"), std::string::npos);
    EXPECT_EQ(there("bash -c '" + convoy_ + " plot " + run_ + " --out /dev/stdout | cat'").out.substr(1, 3), "PNG");
}

TEST_F(PlotStrangers, NamesAreDrawnAsTheyAre) {
    for (const std::string name : {"a$\\frac{$b", "new\nline", "bad\xff utf"}) {
        fs::copy(run_, dir_.path(name));
        const std::string quoted = "$'" + dir_.path() + "/" + (name[0] == 'a' ? "a$\\\\frac{$b" : name) + "'";
        EXPECT_EQ("", failure(there(convoy_ + " plot " + quoted + " " + run_ + " --out " + dir_.path("a.png"))))
            << name;
        expect_picture(dir_.path("a.png"));
    }
    const std::string odd = "'" + dir_.path("a$\\frac{$b") + "'";
    EXPECT_EQ("", failure(there(convoy_ + " plot " + odd)));
    EXPECT_EQ("", failure(there(convoy_ + " plot " + odd + " " + run_ + " --difference --title 'x$^$'")));
    expect_picture(dir_.path("a$\\frac{$b/metrics.png"));
}

// A picture of all of them would take 5 GB of memory.
TEST_F(PlotStrangers, ATraceOfManyRanksIsDrawnInPart) {
    std::string events;
    for (int rank = 0; rank < 2000; ++rank)
        events += formatted(R"(%s{"ph": "M", "name": "process_name", "pid": %d, "args": {"name": "rank %d"}},
                               {"ph": "X", "name": "conv", "cat": "conv forward", "pid": %d, "ts": 0, "dur": 9})",
                            rank ? "," : "", rank, rank, rank);
    write_file(dir_.path("many.json"), R"({"otherData": {"bench": "m", "precision": "f32", "image_size": "8x8",
                                           "batch_per_rank": 1, "threads": 1}, "traceEvents": [)" +
                                           events + "]}");
    const Finished f = there("bash -c 'ulimit -v 2000000; " + python_ + " " + scripts_ + "/timeline.py " +
                             dir_.path("many.json") + "'");
    EXPECT_EQ("", failure(f));
    expect_picture(dir_.path("many.png"));
    record_fault("a trace of 2,000 ranks", "`timeline.py`: the first 64 are drawn", "as promised", 1);
}

// Python waits for a pipe that no process opens.
TEST_F(PlotStrangers, PythonEndsWithConvoy) {
    const std::string pipe = dir_.path("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const Finished f =
        run(convoy_ + " plot --scaling " + pipe + " & convoy=$!; for i in $(seq 200); do sleep 0.05; " +
            "python=$(pgrep -f -- \"[p]lot.py --scaling " + pipe + "\") && break; done; kill -9 $convoy; " +
            "for i in $(seq 100); do kill -0 $python 2>/dev/null || { echo ended; exit; }; sleep 0.05; " +
            "done; kill -9 $python");
    EXPECT_EQ(f.out, "ended\n") << f.err;
    record_fault("kill -9 of `convoy plot`", "its Python ends", "as promised", 1);
}

}  // namespace
}  // namespace convoy::test
