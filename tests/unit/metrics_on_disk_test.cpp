// Metric files on a full disk, in a removed folder, and after kill -9: the remaining files open.
// The tests fork children and kill them at random moments.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

using MetricsOnDisk = MetricsFolder;

TEST_F(MetricsOnDisk, ALinkIsNotFollowed) {
    std::ofstream(dir + "/theirs") << "theirs";
    fs::create_directory(dir + "/run");
    fs::create_symlink(dir + "/theirs", dir + "/run/metrics.jsonl");
    std::string message;
    EXPECT_EQ(code_of([&] { Metrics metrics(dir + "/run"); }, &message), Exit::io);
    EXPECT_NE(message.find("/run/metrics.jsonl"), std::string::npos) << message;
    EXPECT_NE(message.find("symbolic link"), std::string::npos) << message;
    EXPECT_EQ(fs::file_size(dir + "/theirs"), 6u);
    EXPECT_FALSE(fs::exists(dir + "/run/metrics.h5")) << "the folder must not look like a run's";

    fs::remove(dir + "/run/metrics.jsonl");
    fs::create_symlink(dir + "/theirs", dir + "/run/metrics.h5.partial");
    EXPECT_EQ(code_of([&] { Metrics metrics(dir + "/run"); }, &message), Exit::io);
    EXPECT_NE(message.find("symbolic link"), std::string::npos) << message;
    EXPECT_EQ(fs::file_size(dir + "/theirs"), 6u);
}

// A received run folder may have a hard link to another file of the user: tar makes it.
TEST_F(MetricsOnDisk, AHardLinkIsNotAppendedTo) {
    std::ofstream(dir + "/theirs") << "theirs";
    fs::create_directory(dir + "/run");
    fs::create_hard_link(dir + "/theirs", dir + "/run/metrics.jsonl");
    std::string message;
    EXPECT_EQ(code_of([&] { Metrics metrics(dir + "/run"); }, &message), Exit::io);
    EXPECT_NE(message.find("/run/metrics.jsonl: is not a plain file, or has several names"), std::string::npos)
        << message;
    EXPECT_EQ(fs::file_size(dir + "/theirs"), 6u);
}

// A full pipe would block the run, and its rows would be lost.
TEST_F(MetricsOnDisk, APipeIsNotWrittenTo) {
    fs::create_directory(dir + "/run");
    ASSERT_EQ(::mkfifo((dir + "/run/metrics.jsonl").c_str(), 0666), 0);
    const int reader = ::open((dir + "/run/metrics.jsonl").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    std::string message;
    EXPECT_EQ(code_of([&] { Metrics metrics(dir + "/run"); }, &message), Exit::io);
    EXPECT_NE(message.find("/run/metrics.jsonl: is not a plain file"), std::string::npos) << message;
    ::close(reader);
}

/// Continues the run in `dir` until it is killed: one row, then one publish, repeatedly.
[[noreturn]] void train_until_killed(const std::string& dir, int64_t step) {
    try {
        Metrics metrics(dir, MetricsResume{step, 0});
        for (;;) {
            metrics.add(train_row(++step));
            metrics.publish();
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(1);
}

TEST_F(MetricsOnDisk, KilledAtAnyMomentTheFileOpensAndIsWhole) {
    std::mt19937 random(7);
    const auto line_bytes = [&] {
        return fs::exists(dir + "/metrics.jsonl") ? fs::file_size(dir + "/metrics.jsonl") : 0;
    };
    int64_t step = 0;
    for (int kill = 0; kill < 20; ++kill) {
        const size_t lines_before = fs::exists(dir + "/metrics.jsonl") ? json_lines(dir).size() : 0;
        const uintmax_t bytes_before = line_bytes();
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) train_until_killed(dir, step);
        // Every other child may add a row first, however slow the disk is. The others may die while
        // they start.
        for (int tries = 0; kill % 2 == 1 && tries < 5000 && line_bytes() == bytes_before; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
        ASSERT_EQ(::kill(child, SIGKILL), 0);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
        if (!fs::exists(h5())) continue;  // killed before its first publish

        ASSERT_EQ(shell("h5ls -r " + h5()).first % 127, 0);  // 127: not installed
        ASSERT_NO_FATAL_FAILURE(expect_described_tables(h5()));
        const std::vector<int64_t> steps = integers(h5(), "train/step");
        for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], int64_t(i) + 1);
        const size_t added = fs::exists(dir + "/metrics.jsonl") ? json_lines(dir).size() - lines_before : 0;
        ASSERT_GE(steps.size() + 1, size_t(step) + added) << "more is lost than the row that was not published";
        step = int64_t(steps.size());
    }
    EXPECT_GE(step, 5);
    Metrics metrics(dir, MetricsResume{step, 0});
    const std::string python = python_with("h5py");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py to open the file of a killed run";
    EXPECT_EQ(shell(python + " -c \"import h5py; print(len(h5py.File('" + h5() + "')['train/loss']))\"").second,
              std::to_string(step) + "\n");
}

TEST_F(MetricsOnDisk, AFolderThatCannotBeMadeIsAnIoError) {
    std::string message;
    std::ofstream(dir + "/file") << "x";
    EXPECT_EQ(code_of([&] { Metrics metrics(dir + "/file"); }, &message), Exit::io);
    EXPECT_NE(message.find(dir + "/file: cannot be opened: Not a directory"), std::string::npos);
    EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST_F(MetricsOnDisk, AVanishedFolderIsMadeAgain) {
    Metrics metrics(dir);
    fill(metrics);
    const std::vector<double> before = (metrics.publish(), doubles(h5(), "train/loss"));
    fs::remove_all(dir);
    metrics.publish();
    EXPECT_EQ(doubles(h5(), "train/loss"), before);
    EXPECT_EQ(json_lines(dir).size(), 37u) << "every line is written again";
    metrics.event(1, "warning", "after");
    metrics.write_lines();
    EXPECT_EQ(json_lines(dir).size(), 38u);
}

/// Simulates a full disk without a mount: while it exists, no file of this process can grow beyond
/// `bytes`.
class FullDisk {
public:
    explicit FullDisk(size_t bytes) {
        ::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit small{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
    }
    ~FullDisk() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        ::signal(SIGXFSZ, SIG_DFL);
    }

private:
    rlimit before_{};
};

TEST_F(MetricsOnDisk, AFullDiskLeavesTheFileBeforeAndALaterPublishSucceeds) {
    Metrics metrics(dir);
    fill(metrics);
    metrics.publish();
    std::string message;
    {
        const FullDisk full(fs::file_size(h5()) / 2);
        EXPECT_EQ(code_of([&] { metrics.publish(); }, &message), Exit::io);
    }
    EXPECT_NE(message.find(h5()), std::string::npos);
    expect_described_tables(h5());
    EXPECT_EQ(integers(h5(), "train/step").size(), 25u);
    EXPECT_FALSE(fs::exists(h5() + ".partial")) << "the space is given back";
    metrics.add(train_row(26));
    metrics.publish();
    EXPECT_EQ(integers(h5(), "train/step").size(), 26u);
}

// Part of a line may still fit; what follows completes the line.
TEST_F(MetricsOnDisk, AFullDiskLosesNoLine) {
    Metrics metrics(dir);
    const auto bytes = [&] { return fs::file_size(dir + "/metrics.jsonl"); };
    std::vector<int64_t> steps;
    for (size_t room : {0, 1, 100, 137, 1000, 70000}) {
        const FullDisk full(bytes() + room);
        for (int i = 0; i < 1000; ++i) metrics.add(train_row(steps.emplace_back(steps.size() + 1)));
        for (int tries = 0; tries < 3; ++tries) {
            std::string message;
            EXPECT_EQ(code_of([&] { metrics.write_lines(); }, &message), Exit::io);
            EXPECT_NE(message.find("metrics.jsonl"), std::string::npos) << message;
        }
    }
    metrics.publish();
    std::vector<int64_t> in_lines;
    for (const nlohmann::json& line : json_lines(dir)) in_lines.push_back(line["step"]);
    EXPECT_EQ(in_lines, steps);
    EXPECT_EQ(integers(h5(), "train/step"), steps);
}

}  // namespace
}  // namespace convoy::test
