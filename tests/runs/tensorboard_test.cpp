// src/plot/to_tensorboard.py, read back by TensorBoard's own reader. It needs a Python that has the
// package: .deps/tensorboard (bash .ci/deps.sh tensorboard), or any python3.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Returns a Python with the package; empty if there is none.
std::string python_with_tensorboard() {
    for (const char* python : {".deps/tensorboard/bin/python", "python3", "/usr/bin/python3"})
        if (run(std::string(python) + " -c 'import tensorboard, h5py'").code == 0) return python;
    return "";
}

class Tensorboard : public testing::Test {
protected:
    void SetUp() override {
        python_ = python_with_tensorboard();
        if (python_.empty()) GTEST_SKIP() << "no Python with tensorboard and h5py; bash .ci/deps.sh tensorboard";
        std::filesystem::create_directories(dir_.path("one"));
        write_run(dir_.path("one"), 2.5);
    }
    static void write_run(const std::string& dir, double first_loss) {
        Metrics m(dir);
        m.run_attribute("steps_per_epoch", int64_t(2));
        m.event(0, "start", "convoy train");
        m.add(TrainRow{1, 1, first_loss, 0.25, 0.5, 1.0, 0.1, 0.1});
        m.add(TrainRow{2, 1, NAN, 0.5, 0.5, 2.0, 0.1, 0.1});
        m.add(TrainRow{3, 2, 1.5, 0.75, 0.25, 4.0, 0.1, 0.1});
        m.add(EpochRow{1, 120, 3, 40});
        m.add(EpochRow{2, 60, 4, 15});  // the run's last epoch, of one step
        m.add(EvalRow{2, 1, 1.75, 0.625, 0.5});
        m.publish();
    }
    Finished convert(const std::string& arguments) const {
        return run(python_ + " src/plot/to_tensorboard.py " + arguments);
    }
    /// Returns {tag: [[step, value, wall time], …]} of a folder, as read by TensorBoard.
    nlohmann::json read(const std::string& folder) const {
        write_file(dir_.path("read.py"), R"(import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)]
                  for tag in events.Tags()["scalars"]}))
)");
        const Finished f = run(python_ + " " + dir_.path("read.py") + " " + folder + " 2>/dev/null");
        return nlohmann::json::parse(f.out);
    }
    TempDir dir_;
    std::string python_;
};

using Points = std::vector<std::pair<int, double>>;

Points points_of(const nlohmann::json& rows) {
    Points points;
    for (const auto& row : rows) points.emplace_back(row.at(0), row.at(1));
    return points;
}

TEST_F(Tensorboard, ReadsEveryColumnByStep) {
    ASSERT_EQ("", failure(convert(dir_.path("one"))));
    const nlohmann::json tags = read(dir_.path("one") + "/tensorboard");
    EXPECT_EQ(points_of(tags.at("train/loss")), (Points{{1, 2.5}, {3, 1.5}})) << "what is not known is left out";
    EXPECT_EQ(points_of(tags.at("train/accuracy")), (Points{{1, 0.25}, {2, 0.5}, {3, 0.75}}));
    EXPECT_EQ(points_of(tags.at("train/learning_rate")), (Points{{1, 0.5}, {2, 0.5}, {3, 0.25}}));
    EXPECT_EQ(points_of(tags.at("eval/accuracy")), (Points{{2, 0.625}}));
    EXPECT_EQ(points_of(tags.at("epochs/images_per_second")), (Points{{2, 40}, {3, 15}}));
    // seconds after the start: the duration of the steps
    const auto& rows = tags.at("train/accuracy");
    EXPECT_NEAR(rows[2][2].get<double>() - rows[0][2].get<double>(), 6, 1e-3);
}

TEST_F(Tensorboard, EventsAreReplacedAndNotAdded) {
    ASSERT_EQ("", failure(convert(dir_.path("one"))));
    std::filesystem::remove_all(dir_.path("one") + "/metrics.h5");
    write_run(dir_.path("one"), 3.5);
    ASSERT_EQ("", failure(convert(dir_.path("one"))));
    EXPECT_EQ(points_of(read(dir_.path("one") + "/tensorboard").at("train/loss")), (Points{{1, 3.5}, {3, 1.5}}));
}

TEST_F(Tensorboard, SeveralRunsGoIntoOneFolder) {
    std::filesystem::create_directories(dir_.path("two"));
    write_run(dir_.path("two"), 4.5);
    ASSERT_EQ("", failure(convert(dir_.path("one") + " " + dir_.path("two") + " --out " + dir_.path("board"))));
    EXPECT_EQ(points_of(read(dir_.path("board") + "/one").at("train/loss")).at(0).second, 2.5);
    EXPECT_EQ(points_of(read(dir_.path("board") + "/two").at("train/loss")).at(0).second, 4.5);
}

TEST_F(Tensorboard, RefusalsAreOneLine) {
    write_file(dir_.path("bad/metrics.h5"), "no metrics");
    for (const auto& [arguments, code, word] :
         {std::tuple<std::string, int, const char*>{dir_.path("none"), 3, "no such file"},
          {dir_.path("bad"), 3, "cannot be read"},
          {"", 2, "usage"},
          {dir_.path("one") + " --out /proc/nowhere", 5, "cannot be written"}}) {
        const Finished f = convert(arguments);
        EXPECT_EQ(f.code, code) << f.err;
        EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
        EXPECT_NE(f.err.find(word), std::string::npos) << f.err;
    }
}

// Each row would be written with the name.
TEST_F(Tensorboard, ANameThatIsLongIsRefused) {
    const std::string metrics = dir_.path("one") + "/metrics.h5";
    ASSERT_EQ("", failure(run(python_ +
                              " -c \"import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); "
                              "f['train'].move('loss', 'x' * 101)\" " +
                              metrics)));
    const Finished f = convert(dir_.path("one"));
    EXPECT_EQ(f.code, int(Exit::bad_input));
    EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
    EXPECT_NE(f.err.find(metrics + ": cannot be read as a metric file: /train has a column whose name has more than " +
                         "100 letters"),
              std::string::npos)
        << f.err;
}

// A run may come from a stranger.
TEST_F(Tensorboard, NoLinkIsFollowed) {
    namespace fs = std::filesystem;
    const std::string other = dir_.path("other"), events = other + "/events.out.tfevents.1.convoy";
    write_file(events, "precious");
    fs::create_directory_symlink(other, dir_.path("one/tensorboard"));
    const Finished f = convert(dir_.path("one"));
    EXPECT_EQ(f.code, 3);
    EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
    EXPECT_NE(f.err.find("is a link"), std::string::npos) << f.err;
    EXPECT_EQ(read_file(events), "precious");
    EXPECT_EQ(std::distance(fs::directory_iterator(other), {}), 1);
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path("one")), {}), 3) << "metrics and the link";
    EXPECT_EQ("", failure(convert(dir_.path("one") + " --out " + dir_.path("board"))));
    ASSERT_EQ(run(python_ + " -c \"import h5py; f = h5py.File('" + dir_.path("one/metrics.h5") +
                  "', 'r+'); del f['train/loss']; f['train/loss'] = h5py.ExternalLink('" + dir_.path("pipe") +
                  "', '/x')\" && mkfifo " + dir_.path("pipe"))
                  .code,
              0);
    const Finished hostile = convert(dir_.path("one") + " --out " + dir_.path("second"));
    EXPECT_EQ(hostile.code, 3);
    EXPECT_NE(hostile.err.find("/train/loss is a link"), std::string::npos) << hostile.err;
    EXPECT_FALSE(fs::exists(dir_.path("second")));
}

TEST_F(Tensorboard, EventsGoIntoTheFolderThatWasRead) {
    namespace fs = std::filesystem;
    const std::string run_folder = dir_.path("one"), other = dir_.path("other");
    fs::create_directories(other);
    write_file(dir_.path("driver.py"), R"(import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "")
sys.path.append("src/plot")
import to_tensorboard
read, (folder, other) = to_tensorboard.read, sys.argv[1:3]
def read_and_exchange(run):
    found = read(run)
    os.rename(folder, folder + ".was")
    os.symlink(other, folder)
    return found
to_tensorboard.read = read_and_exchange
del sys.argv[2]
to_tensorboard.main()
)");
    EXPECT_EQ("", failure(run(python_ + " " + dir_.path("driver.py") + " " + run_folder + " " + other)));
    EXPECT_TRUE(fs::is_empty(other));
    EXPECT_EQ(points_of(read(run_folder + ".was/tensorboard").at("train/loss")), (Points{{1, 2.5}, {3, 1.5}}));
    EXPECT_EQ(std::distance(fs::directory_iterator(run_folder + ".was"), {}), 3) << "metrics and the events";
}

/// The script, while another user gives the name of its working folder to the folder `other`.
class TensorboardExchanged : public Tensorboard {
protected:
    void SetUp() override {
        Tensorboard::SetUp();
        for (const std::string& folder : {group_, other_}) std::filesystem::create_directories(folder);
        write_file(dir_.path("driver.py"), R"(import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "")
sys.path.append("src/plot")
import to_tensorboard
when, group, other = sys.argv[1:4]
del sys.argv[1:4]
def exchange():
    name = next(name for name in os.listdir(group) if name.startswith(".tensorboard-"))
    os.rename(group + "/" + name, group + "/moved")
    os.rename(other, group + "/" + name)
mkdir, write = os.mkdir, to_tensorboard.write_events
def make_and_exchange(name, *mode, **above):
    mkdir(name, *mode, **above)
    if os.path.basename(name).startswith(".tensorboard-"):
        exchange()
def exchange_and_write(*arguments):
    exchange()
    return write(*arguments)
if when == "made":
    os.mkdir = make_and_exchange
else:
    to_tensorboard.write_events = exchange_and_write
to_tensorboard.main()
)");
    }
    /// Exchanges the folder when it was "made", or when the events are "written" into it.
    Finished convert_while(const std::string& when) const {
        return run(python_ + " " + dir_.path("driver.py") + " " + when + " " + group_ + " " + other_ + " " +
                   dir_.path("one") + " --out " + group_);
    }
    /// Returns the names in the other folder, which has another name now unless it was removed.
    std::string left() const { return run("ls " + group_ + "/.tensorboard-*").out; }

    const std::string group_ = dir_.path("group"), other_ = dir_.path("other");
};

TEST_F(TensorboardExchanged, AnotherFolderKeepsItsFiles) {
    write_file(other_ + "/chapter1.tex", "precious");
    write_file(other_ + "/events.out.tfevents.1.convoy", "precious");
    EXPECT_EQ("", failure(convert_while("written")));
    EXPECT_EQ(left(), "chapter1.tex\nevents.out.tfevents.1.convoy\n");
    EXPECT_EQ(points_of(read(group_ + "/one").at("train/loss")), (Points{{1, 2.5}, {3, 1.5}}));
    EXPECT_TRUE(std::filesystem::is_empty(group_ + "/moved"));
}

TEST_F(TensorboardExchanged, NothingIsWrittenIntoAnotherFolder) {
    const auto expect_refused = [&](const char* names) {
        const Finished f = convert_while("made");
        EXPECT_EQ(f.code, 5);
        EXPECT_EQ(f.err, "driver.py: " + group_ +
                             "/one: cannot be written: its working folder was exchanged; write it again\n");
        EXPECT_EQ(left(), names);
        EXPECT_FALSE(std::filesystem::exists(group_ + "/one"));
        std::filesystem::remove_all(group_);
        for (const std::string& folder : {group_, other_}) std::filesystem::create_directories(folder);
    };
    write_file(other_ + "/events.out.tfevents.1.convoy", "precious");
    expect_refused("events.out.tfevents.1.convoy\n");
    // Others could put a link there, under the name of the events.
    std::filesystem::permissions(other_, std::filesystem::perms::all);
    expect_refused("");
}

TEST(TensorboardMissing, IsSaidInOneLine) {
    const TempDir dir;  // a package of that name that cannot be imported
    write_file(dir.path("tensorboard/__init__.py"), "raise ModuleNotFoundError('none', name='tensorboard')\n");
    const Finished f = run("PYTHONPATH=" + dir.path() + " /usr/bin/python3 src/plot/to_tensorboard.py x");
    if (f.err.find("h5py") != std::string::npos) GTEST_SKIP() << "/usr/bin/python3 has no h5py";
    EXPECT_EQ(f.code, 2);
    EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
    EXPECT_NE(f.err.find("pip install tensorboard"), std::string::npos) << f.err;
}

}  // namespace
}  // namespace convoy::test
