// The order of calls to the file system: a complete file is synced and renamed, then its folder is
// synced.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/durable.h"
#include "data/decode.h"
#include "data/shard.h"
#include "model/models.h"
#include "run/metrics.h"
#include "tests/ops/op_harness.h"
#include "tests/support/file_calls.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Returns the problem with how `path` was put in place; empty if there is none. Required: its
/// partial file synced with all bytes, one rename, and then the folder synced.
std::string problem_of(const std::vector<Call>& calls, const std::string& file) {
    const std::string path = real_path(file);
    const auto renamed =
        std::find_if(calls.begin(), calls.end(), [&](const Call& c) { return c.kind == Call::rename && c.to == path; });
    if (renamed == calls.end()) return path + ": nothing was renamed to it";
    const auto synced = [](const std::string& what) {
        return [what](const Call& c) { return c.kind == Call::sync && c.path == what; };
    };
    const auto before = std::find_if(calls.begin(), renamed, synced(renamed->path));
    if (before == renamed) return path + ": not synced before the rename";
    if (before->bytes != renamed->bytes || before->bytes != off_t(fs::file_size(path)))
        return path + ": " + std::to_string(before->bytes) + " bytes when it was synced, " +
               std::to_string(fs::file_size(path)) + " now";
    if (std::find_if(renamed, calls.end(), synced(fs::path(path).parent_path())) == calls.end())
        return path + ": its folder is not synced after the rename";
    return "";
}

class Durable : public testing::Test {
protected:
    TempDir dir_;
    const ModelFile about_{{"linear", 1, 1, 10, 10},
                           {std::vector<float>(10, 0.5f), std::vector<float>(10, 0.5f)},
                           std::vector<std::string>(10, "a name")};
    const std::unique_ptr<Backend> backend_ = make_test_backend("cpu");
    const Graph graph_ = build_model(about_.model);
    const OptimizerSpec spec_;
    const State state_{graph_, *backend_, &spec_};
};

TEST_F(Durable, CheckpointsAreSyncedAndRenamed) {
    Checkpoint c;
    c.model = about_;
    c.identity = {{"seed", "1"}};
    c.weights.resize(state_.weights().count());
    c.optimizer.resize(state_.optimizer_block().count());
    CallLog log;
    write_checkpoint(checkpoint_path(dir_.path(), 10), c, state_);
    EXPECT_EQ("", problem_of(log.calls, checkpoint_path(dir_.path(), 10)));
}

TEST_F(Durable, ModelsAreSyncedAndRenamed) {
    CallLog log;
    save_model(dir_.path("model.h5"), about_, state_, *backend_);
    EXPECT_EQ("", problem_of(log.calls, dir_.path("model.h5")));
}

TEST_F(Durable, EveryPublishOfMetricsIsSyncedAndRenamed) {
    CallLog log;
    Metrics metrics(dir_.path());
    for (int64_t step = 1; step <= 3; ++step) {
        EXPECT_EQ("", problem_of(log.calls, dir_.path("metrics.h5"))) << "publish before step " << step;
        log.calls.clear();
        metrics.add(TrainRow{.step = step});
        metrics.publish();
    }
    EXPECT_EQ("", problem_of(log.calls, dir_.path("metrics.h5")));
}

// The files are in a folder that is renamed to the data set's name.
TEST_F(Durable, DataSetsAreSyncedAndRenamed) {
    CallLog log;
    write_data_set(make_synthetic({.images = 20, .test_images = 10, .height = 4, .width = 4}), dir_.path("data"), 2,
                   false);
    const auto renamed =
        std::find_if(log.calls.begin(), log.calls.end(), [](const Call& c) { return c.kind == Call::rename; });
    ASSERT_NE(renamed, log.calls.end());
    EXPECT_EQ(renamed->to, real_path(dir_.path("data")));
    const auto is_synced = [](auto begin, auto end, const std::string& path) {
        return std::any_of(begin, end, [&](const Call& c) { return c.kind == Call::sync && c.path == path; });
    };
    int files = 0;
    for (const auto& entry : fs::directory_iterator(dir_.path("data"))) {
        const std::string name = entry.path().filename();
        EXPECT_TRUE(is_synced(log.calls.begin(), renamed, renamed->path + "/" + name)) << name;
        ++files;
    }
    EXPECT_EQ(files, 4) << "three shards and the manifest";
    EXPECT_TRUE(is_synced(log.calls.begin(), renamed, renamed->path)) << "the folder";
    EXPECT_TRUE(is_synced(renamed, log.calls.end(), real_path(dir_.path()))) << "the folder of the folder";
}

/// Returns the names in a folder.
std::set<std::string> names_in(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
}

const std::vector<unsigned char> new_bytes = {'n', 'e', 'w'};

TEST_F(Durable, AFileOfTheUsersThatLooksLikeAPartialOneStays) {
    const std::string path = dir_.path("file");
    write_file(path + ".partial", "mine");
    CallLog log;
    for (const IfThere if_there : {IfThere::refuse, IfThere::replace}) {
        replace_file(path, new_bytes, if_there);
        EXPECT_EQ("", problem_of(log.calls, path));
        EXPECT_EQ(read_file(path), "new");
        log.calls.clear();
    }
    EXPECT_EQ(read_file(path + ".partial"), "mine");
    EXPECT_EQ(names_in(dir_.path()), (std::set<std::string>{"file", "file.partial"}));
}

TEST_F(Durable, AFileThatAppearsMeanwhileIsReplacedOnlyIfThatIsAsked) {
    const std::string path = dir_.path("file");
    write_file(path, "mine");
    EXPECT_EQ("", problem_of_error(Exit::io, {path + ": a file has appeared there meanwhile", "--overwrite"},
                                   [&] { replace_file(path, new_bytes, IfThere::refuse); }));
    EXPECT_EQ(read_file(path), "mine");
    EXPECT_EQ(names_in(dir_.path()), std::set<std::string>{"file"});
    replace_file(path, new_bytes);
    EXPECT_EQ(read_file(path), "new");
}

TEST_F(Durable, APlaceThatCannotBeWrittenIsFoundBefore) {
    const std::string path = dir_.path("file");
    check_place(path);
    write_file(path, "mine");
    check_place(path);
    EXPECT_EQ(read_file(path), "mine");
    fs::create_symlink("file", dir_.path("link"));
    ASSERT_EQ(::mkfifo(dir_.path("pipe").c_str(), 0600), 0);
    fs::create_directory(dir_.path("folder"));
    for (const char* name : {"link", "pipe", "folder", "file/x", "folder/"})
        EXPECT_EQ("", problem_of_error(Exit::io, {dir_.path(name)}, [&] { check_place(dir_.path(name)); })) << name;
    EXPECT_EQ("", problem_of_error(Exit::io, {"cannot be written", "too long"},
                                   [&] { check_place(dir_.path(std::string(256, 'n'))); }));
    EXPECT_EQ(names_in(dir_.path()), (std::set<std::string>{"file", "link", "pipe", "folder"}));
    EXPECT_TRUE(fs::is_empty(dir_.path("folder")));
}

// Another user may put it there in the place of a file that was just written.
TEST_F(Durable, APipeUnderTheNameOfAFinishedFileIsNotWaitedFor) {
    const std::string path = dir_.path("model.h5"), partial = path + ".partial";
    ASSERT_EQ(::mkfifo(partial.c_str(), 0600), 0);
    EXPECT_EQ("", problem_of_error(Exit::io, {partial + ": is no regular file any more"}, [&] { publish_file(path); }));
    EXPECT_FALSE(fs::exists(path));
}

// Another user may put a link, or a pipe that waits for a reader, under the name of the partial
// file.
TEST_F(Durable, AFileInTheWayIsReplacedAndNotWrittenTo) {
    const std::string path = dir_.path("file"), partial = path + ".partial", mine = dir_.path("mine");
    const std::vector<unsigned char> bytes = {'n', 'e', 'w'};
    write_file(mine, "mine");
    fs::create_hard_link(mine, partial);
    replace_run_file(path, bytes);
    EXPECT_EQ(read_file(path), "new");
    EXPECT_EQ(read_file(mine), "mine");
    ASSERT_EQ(::mkfifo(partial.c_str(), 0600), 0);
    replace_run_file(path, bytes);
    EXPECT_EQ(read_file(path), "new");
    fs::create_symlink(mine, partial);
    EXPECT_EQ("",
              problem_of_error(Exit::io, {partial + ": is a symbolic link"}, [&] { replace_run_file(path, bytes); }));
    fs::remove(partial);
    write_file(partial + "/deep/x", "mine");
    EXPECT_EQ("", problem_of_error(Exit::io, {partial, "Is a directory"}, [&] { replace_run_file(path, bytes); }));
    EXPECT_EQ(read_file(mine) + read_file(partial + "/deep/x"), "minemine");
}

// Tests problem_of() itself: it finds calls in the wrong order.
// Files of logs and of measured times may be read by all users.
TEST_F(Durable, ALockForReadingKeepsNobodyAway) {
    const std::string path = dir_.path("lock");
    write_file(path, "");
    const Descriptor first(::open(path.c_str(), O_RDWR | O_CLOEXEC)), second(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
        reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct flock reading{};
    reading.l_type = F_RDLCK;
    ASSERT_EQ(::fcntl(reader.fd(), F_OFD_SETLK, &reading), 0);
    const bool locked = lock_file(first.fd());
    const std::string why = why_unlocked(errno);
    EXPECT_TRUE(locked);
    EXPECT_EQ(why, "another process has locked its lock file for reading");
    reading.l_type = F_UNLCK;
    ASSERT_EQ(::fcntl(reader.fd(), F_OFD_SETLK, &reading), 0);
    EXPECT_TRUE(lock_file(first.fd()));
    EXPECT_FALSE(lock_file(second.fd()));
}

TEST_F(Durable, TheTestSeesWhatIsMissing) {
    const std::string partial = dir_.path("file.partial"), path = dir_.path("file");
    const auto sync = [](const std::string& what) {
        const int fd = ::open(what.c_str(), O_RDONLY);
        EXPECT_EQ(::fsync(fd), 0);
        ::close(fd);
    };
    const auto problem = [&](bool file_first, bool folder_last) {
        write_file(partial, "0123456789");
        CallLog log;
        if (file_first) sync(partial);
        fs::rename(partial, path);
        if (!file_first) sync(path);
        if (folder_last) sync(dir_.path());
        return problem_of(log.calls, path);
    };
    EXPECT_EQ("", problem(true, true));
    EXPECT_NE(problem(false, true).find("not synced before"), std::string::npos);
    EXPECT_NE(problem(true, false).find("folder is not synced"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
