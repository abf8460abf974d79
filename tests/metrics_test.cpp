// Tests of the metric files: what is written is what is read (by HDF5, h5ls, h5dump, h5py and output/plot.py), and a run that
// is killed or meets a full disk leaves a file that opens. Children are forked here, and killed at random moments.
#include "train/metrics.h"

#include <gtest/gtest.h>
#include <hdf5_hl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "data/hdf5.h"

namespace fs = std::filesystem;
using namespace convoy;

namespace {

/// A folder of its own for each test, removed at the end.
class MetricsTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "convoy-metrics-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir = name;
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(dir, ignored);
    }
    std::string h5() const { return dir + "/metrics.h5"; }
    std::string dir;
};

template <class T> std::vector<T> column(const std::string& path, const std::string& name, hid_t type) {
    const h5::Handle file = h5::open(path);
    std::vector<T> values(h5::extent(file, name, path).dims.at(0));
    h5::read_rows(h5::open_dataset(file, name, path), type, 0, values.size(), values.data(), path);
    return values;
}
std::vector<double> doubles(const std::string& path, const std::string& name) { return column<double>(path, name, H5T_NATIVE_DOUBLE); }
std::vector<int64_t> integers(const std::string& path, const std::string& name) { return column<int64_t>(path, name, H5T_NATIVE_INT64); }

std::vector<std::string> texts(const std::string& path, const std::string& name) {
    const h5::Handle file = h5::open(path), set = h5::open_dataset(file, name, path), type(H5Dget_type(set));
    const h5::Extent extent = h5::extent(file, name, path);
    std::string padded(extent.dims.at(0) * extent.type_size, '\0');
    h5::read_rows(set, type, 0, extent.dims[0], padded.data(), path);
    std::vector<std::string> values;
    for (size_t at = 0; at < padded.size(); at += extent.type_size)
        values.emplace_back(&padded[at], ::strnlen(&padded[at], extent.type_size));
    return values;
}

std::vector<nlohmann::json> json_lines(const std::string& dir) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(dir + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
}

/// Runs a shell command; its exit status, and what it printed on both streams.
std::pair<int, std::string> shell(const std::string& command) {
    std::string text;
    FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
    if (!pipe) return {-1, ""};
    char buffer[4096];
    for (size_t n; (n = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
    const int status = ::pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

/// A Python that can import these modules; empty if there is none.
std::string python_with(const std::string& modules) {
    for (const std::string python : {"python3", "/usr/bin/python3"})
        if (shell(python + " -c 'import " + modules + "'").first == 0) return python;
    return "";
}

Exit code_of(const std::function<void()>& action, std::string* message = nullptr) {
    try {
        action();
    } catch (const Error& error) {
        if (message) *message = error.what();
        return error.code;
    }
    return Exit::done;
}

TrainRow train_row(int64_t step) { return {step, 1 + step / 10, 2.0 / double(step), 0.5, 0.1, 0.02, 0.001, 0.002}; }

void fill(Metrics& metrics) {
    for (int64_t step = 1; step <= 25; ++step) metrics.add(train_row(step));
    metrics.add(EvalRow{10, 1, 1.5, 0.4, 0.3});
    metrics.add(EvalRow{20, 2, NAN, 0.6, 0.2});
    metrics.add(EpochRow{1, 5120, 2.0, 2560.0});
    metrics.add(EpochRow{2, 5130, 1.9, 2700.0});
    for (int64_t rank = 0; rank < 2; ++rank)
        metrics.add(RankRow{rank, "node0" + std::to_string(rank), "Tesla Größe", 4});
    for (int64_t epoch = 1; epoch <= 2; ++epoch)
        for (int64_t rank = 0; rank < 2; ++rank)
            metrics.add(RankEpochRow{epoch, rank, 0.1, 1.0 + double(rank), 0.5});
    metrics.event(20, "checkpoint", "step-20.h5 written");
    metrics.event(25, "warning", std::string(5000, 'x') + "é");
}

TEST_F(MetricsTest, ColumnsComeBackAsTheyWereAdded) {
    Metrics metrics(dir);
    metrics.run_attribute("command_line", "convoy train input/recipes/a.cfg");
    metrics.run_attribute("ranks", 4);
    metrics.run_attribute("ranks", 2);
    metrics.run_attribute("momentum", 0.9);
    fill(metrics);
    EXPECT_TRUE(integers(h5(), "train/step").empty()) << "rows are in the file only after publish";
    metrics.publish();

    const std::vector<double> loss = doubles(h5(), "train/loss");
    ASSERT_EQ(loss.size(), 25u);
    EXPECT_EQ(loss[3], 0.5);
    EXPECT_EQ(integers(h5(), "train/step").back(), 25);
    EXPECT_EQ(integers(h5(), "train/epoch").back(), 3);
    EXPECT_EQ(doubles(h5(), "train/comm_exposed_seconds")[0], 0.002);
    EXPECT_TRUE(std::isnan(doubles(h5(), "eval/loss").at(1))) << "NaN is a value";
    EXPECT_EQ(doubles(h5(), "eval/accuracy"), (std::vector<double>{0.4, 0.6}));
    EXPECT_EQ(doubles(h5(), "epochs/images_per_second"), (std::vector<double>{2560, 2700}));
    EXPECT_EQ(texts(h5(), "ranks/host"), (std::vector<std::string>{"node00", "node01"}));
    EXPECT_EQ(texts(h5(), "ranks/device").at(1), "Tesla Größe");
    EXPECT_EQ(doubles(h5(), "rank_epochs/compute_seconds"), (std::vector<double>{1, 2, 1, 2}));
    EXPECT_EQ(texts(h5(), "events/kind"), (std::vector<std::string>{"checkpoint", "warning"}));
    EXPECT_NEAR(doubles(h5(), "events/time").at(0), double(std::time(nullptr)), 60);
    const std::string cut = texts(h5(), "events/message").at(1);
    EXPECT_LE(cut.size(), 1000u);
    EXPECT_TRUE(cut.ends_with("…"));

    const h5::Handle file = h5::open(h5()), run(H5Gopen2(file, "run", H5P_DEFAULT));
    EXPECT_EQ(h5::string_attribute(file, "format", h5()), "convoy-metrics");
    EXPECT_EQ(h5::int_attribute(file, "version", h5()), 1);
    EXPECT_EQ(h5::string_attribute(run, "command_line", h5()), "convoy train input/recipes/a.cfg");
    EXPECT_EQ(h5::int_attribute(run, "ranks", h5()), 2);
    EXPECT_EQ(h5::double_attributes(run, "momentum", h5()), std::vector<double>{0.9});
}

/// Checks every data set of every group: a described, checksummed column, as long as the others of its group.
void expect_described_tables(const std::string& path) {
    const h5::Handle file = h5::open(path);
    for (const char* group : {"train", "eval", "epochs", "ranks", "rank_epochs", "events"}) {
        const h5::Handle opened(H5Gopen2(file, group, H5P_DEFAULT));
        ASSERT_TRUE(opened.valid()) << group;
        H5G_info_t info;
        H5Gget_info(opened, &info);
        EXPECT_GE(info.nlinks, 3u);
        std::optional<hsize_t> rows;
        int scales = 0;
        for (hsize_t i = 0; i < info.nlinks; ++i) {
            char name[64];
            H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
            const h5::Handle set = h5::open_dataset(opened, name, path);
            const h5::Extent extent = h5::extent(opened, name, path);
            EXPECT_TRUE(extent.checksummed) << group << "/" << name;
            EXPECT_FALSE(h5::string_attribute(set, "units", path).empty()) << group << "/" << name;
            EXPECT_FALSE(h5::string_attribute(set, "long_name", path).empty()) << group << "/" << name;
            EXPECT_EQ(extent.dims.size(), 1u);
            EXPECT_EQ(rows.value_or(extent.dims[0]), extent.dims[0]) << group << "/" << name;
            rows = extent.dims[0];
            if (H5DSis_scale(set) > 0)
                ++scales;
            else
                EXPECT_EQ(H5DSget_num_scales(set, 0), 1) << group << "/" << name;
        }
        EXPECT_EQ(scales, 1) << group;
    }
}

TEST_F(MetricsTest, EveryColumnIsDescribedAndHasADimensionScale) {
    Metrics metrics(dir);
    expect_described_tables(h5());  // empty tables too
    fill(metrics);
    metrics.publish();
    expect_described_tables(h5());
    const h5::Handle file = h5::open(h5());
    EXPECT_EQ(h5::string_attribute(h5::open_dataset(file, "train/step_seconds", h5()), "units", h5()), "s");
    EXPECT_EQ(h5::string_attribute(h5::open_dataset(file, "epochs/images_per_second", h5()), "units", h5()), "images/s");
}

TEST_F(MetricsTest, TheUsersToolsOpenTheFileWhileTheRunGoesOn) {
    Metrics metrics(dir);
    const std::string python = python_with("h5py");
    for (const char* rows : {"{0}", "{25}"}) {
        const auto [listed, listing] = shell("h5ls -r " + h5());
        const auto [dumped, dump] = shell("h5dump -H " + h5());
        if (listed == 127 || dumped == 127) GTEST_SKIP() << "h5ls and h5dump are not installed (Debian: hdf5-tools)";
        EXPECT_EQ(listed, 0) << listing;
        EXPECT_NE(listing.find(rows), std::string::npos) << listing;
        EXPECT_EQ(dumped, 0) << dump;
        if (*rows && rows[1] == '0') {
            fill(metrics);
            metrics.publish();
        }
    }
    EXPECT_NE(shell("h5dump -d /events/kind " + h5()).second.find("\"checkpoint"), std::string::npos);
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    const auto [code, text] = shell(python + " -c \"import h5py; f = h5py.File('" + h5() +
                                    "'); print(f['train/loss'][3], f['train/loss'].dims[0][0].name, f['ranks/device'].asstr()[0])\"");
    EXPECT_EQ(code, 0);
    EXPECT_EQ(text, "0.5 /train/step Tesla Größe\n");
}

TEST_F(MetricsTest, JsonLinesMatchTheTables) {
    Metrics metrics(dir);
    fill(metrics);
    metrics.write_lines();
    const std::vector<nlohmann::json> lines = json_lines(dir);
    ASSERT_EQ(lines.size(), 25u + 2 + 2 + 2 + 4 + 2);
    EXPECT_EQ(lines[3]["kind"], "train");
    EXPECT_EQ(lines[3]["step"], 4);
    EXPECT_EQ(lines[3]["loss"], 0.5);
    EXPECT_EQ(lines[26]["kind"], "eval");
    EXPECT_TRUE(lines[26]["loss"].is_null()) << "JSON has no NaN";
    EXPECT_EQ(lines[27]["kind"], "epoch");
    EXPECT_EQ(lines[29]["kind"], "rank");
    EXPECT_EQ(lines[29]["device"], "Tesla Größe");
    EXPECT_EQ(lines.back()["kind"], "event");
    EXPECT_EQ(lines.back()["event"], "warning");
    EXPECT_EQ(lines.back()["message"].get<std::string>().size(), 5002u) << "whole here, cut in metrics.h5";
    metrics.event(1, "warning", "not UTF-8: \xff");
    metrics.write_lines();
    EXPECT_EQ(json_lines(dir).size(), lines.size() + 1);
}

// Seven digits are what a line has of a number; of a point in time, milliseconds.
TEST_F(MetricsTest, LinesAreShortAndRight) {
    Metrics metrics(dir);
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> exponent(-12, 12);
    constexpr int rows = 500;
    for (int64_t step = 1; step <= rows; ++step) {
        const auto any = [&] { return double(float(std::pow(10, exponent(random)))); };
        metrics.add(TrainRow{123456000 + step, step, any(), -any(), any(), any(), any(), any()});
    }
    metrics.add(TrainRow{1, 1, INFINITY, NAN, 0, 1e-300, 1e300, 5});
    metrics.event(1, "start", "\"quoted\"");
    metrics.publish();
    const std::vector<nlohmann::json> lines = json_lines(dir);
    for (const char* name : {"loss", "accuracy", "learning_rate", "step_seconds", "data_seconds", "comm_exposed_seconds"}) {
        const std::vector<double> exact = doubles(h5(), std::string("train/") + name);
        for (size_t i = 0; i < rows; ++i)
            ASSERT_NEAR(lines[i][name].get<double>(), exact[i], 5.0001e-7 * std::abs(exact[i])) << name;
    }
    EXPECT_EQ(lines[499]["step"], 123456500);
    EXPECT_TRUE(lines[rows]["loss"].is_null() && lines[rows]["accuracy"].is_null());
    EXPECT_EQ(lines[rows]["step_seconds"], 1e-300);
    EXPECT_NEAR(lines.back()["time"].get<double>(), doubles(h5(), "events/time").at(0), 0.000501);
    EXPECT_EQ(lines.back()["message"], "\"quoted\"");
    EXPECT_LT(fs::file_size(dir + "/metrics.jsonl"), size_t(rows + 2) * 215) << "bytes";
}

TEST_F(MetricsTest, ARunHasAtMostAMillionTrainRows) {
    EXPECT_EQ(steps_between_rows(1), 1);
    EXPECT_EQ(steps_between_rows(1'000'000), 1);
    EXPECT_EQ(steps_between_rows(1'000'001), 2);
    EXPECT_EQ(steps_between_rows(5'000'000), 5);
    for (int64_t steps = 1; steps < 100'000'000; steps = steps * 13 / 8 + 1) {
        const int64_t rows = steps / steps_between_rows(steps);
        EXPECT_LE(rows, 1'000'000) << steps;
        EXPECT_GE(rows, std::min<int64_t>(steps, 500'000)) << steps;
    }
}

// Rows as those of a training; two versions of metrics.h5, the old one and the one being written.
TEST_F(MetricsTest, TheirSizeIsKnownBeforehand) {
    Metrics metrics(dir);
    constexpr int64_t steps = 40'000, epochs = 1000, ranks = 3;
    std::mt19937_64 random(3);
    std::exponential_distribution<double> time(1000);
    for (int64_t step = 1; step <= steps; ++step)
        metrics.add(TrainRow{step, step / 40, 1 + time(random), 0.5, 0.05, time(random), time(random) / 10, time(random) / 10});
    for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
        metrics.add(EpochRow{epoch, 5120, time(random), 5120 / time(random), 1 + time(random), time(random)});
        metrics.add(EvalRow{epoch * 40, epoch, 1 + time(random), time(random), time(random)});
        for (int64_t rank = 0; rank < ranks; ++rank)
            metrics.add(RankEpochRow{epoch, rank, time(random), time(random), time(random)});
    }
    metrics.publish();
    const size_t most = 2 * fs::file_size(h5()) + fs::file_size(dir + "/metrics.jsonl");
    const size_t planned = bytes_of_metrics(steps, epochs, ranks);
    EXPECT_LE(most, planned);
    EXPECT_GE(most, planned * 8 / 10);
    EXPECT_LT(bytes_of_metrics(1, 1'000'000'000, 8), size_t(200) << 20) << "an endless plan needs no endless room";
}

TEST_F(MetricsTest, ALinkIsNotFollowed) {
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

TEST_F(MetricsTest, AResumedRunKeepsTheRowsBeforeItsCheckpoint) {
    {
        Metrics metrics(dir);
        fill(metrics);
        metrics.publish();
        std::ofstream(dir + "/metrics.jsonl", std::ios::app) << "{\"half a l";
    }
    std::string message;
    EXPECT_EQ(code_of([&] { Metrics another(dir); }, &message), Exit::usage);
    EXPECT_NE(message.find(h5()), std::string::npos);

    Metrics metrics(dir, MetricsResume{.step = 10, .epochs_done = 1});
    metrics.add(train_row(11));
    metrics.publish();
    EXPECT_EQ(integers(h5(), "train/step"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(doubles(h5(), "train/loss").at(3), 0.5);
    EXPECT_EQ(integers(h5(), "eval/step"), std::vector<int64_t>{10});
    EXPECT_EQ(integers(h5(), "epochs/epoch"), std::vector<int64_t>{1});
    EXPECT_EQ(integers(h5(), "rank_epochs/epoch"), (std::vector<int64_t>{1, 1}));
    EXPECT_TRUE(integers(h5(), "ranks/rank").empty());
    EXPECT_EQ(texts(h5(), "events/kind"), (std::vector<std::string>{"checkpoint", "warning"}));
    std::ifstream file(dir + "/metrics.jsonl");
    std::string last;
    for (std::string line; std::getline(file, line);) last = line;
    EXPECT_EQ(nlohmann::json::parse(last)["step"], 11) << "a torn line is closed before the next";
}

// A run that stopped, or goes back, between the last step of an epoch and its evaluation evaluates
// it once more.
TEST_F(MetricsTest, ADueEvaluationIsNotThereTwice) {
    {
        Metrics metrics(dir);
        fill(metrics);
        metrics.publish();
    }
    const MetricsResume before_evaluation{.step = 20, .epochs_done = 2, .evaluation_due = true};
    MetricsResume after_evaluation = before_evaluation;
    after_evaluation.evaluation_due = false;
    Metrics metrics(dir, after_evaluation);
    metrics.publish();
    EXPECT_EQ(integers(h5(), "eval/step"), (std::vector<int64_t>{10, 20}));
    metrics.go_back(before_evaluation);
    metrics.add(EvalRow{20, 2, 1.25, 0.7, 0.1});
    metrics.publish();
    EXPECT_EQ(integers(h5(), "eval/step"), (std::vector<int64_t>{10, 20}));
    EXPECT_EQ(doubles(h5(), "eval/accuracy"), (std::vector<double>{0.4, 0.7}));
    EXPECT_EQ(integers(h5(), "train/step").back(), 20);
    EXPECT_EQ(integers(h5(), "epochs/epoch"), (std::vector<int64_t>{1, 2}));

    Metrics again(dir, before_evaluation);
    again.publish();
    EXPECT_EQ(integers(h5(), "eval/step"), std::vector<int64_t>{10});
}

TEST_F(MetricsTest, ADamagedFileIsNotGoneOnWith) {
    { Metrics metrics(dir); }
    fs::resize_file(h5(), fs::file_size(h5()) / 2);
    EXPECT_EQ(code_of([&] { Metrics metrics(dir, MetricsResume{}); }), Exit::bad_input);
}

/// Goes on with the run in `dir` for ever: one row, one publish.
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

TEST_F(MetricsTest, KilledAtAnyMomentTheFileOpensAndIsWhole) {
    std::mt19937 random(7);
    const auto line_bytes = [&] { return fs::exists(dir + "/metrics.jsonl") ? fs::file_size(dir + "/metrics.jsonl") : 0; };
    int64_t step = 0;
    for (int kill = 0; kill < 20; ++kill) {
        const size_t lines_before = fs::exists(dir + "/metrics.jsonl") ? json_lines(dir).size() : 0;
        const uintmax_t bytes_before = line_bytes();
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) train_until_killed(dir, step);
        // Every other child is left to add a row first, however slow the disk is; the others die while they start, too.
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

TEST_F(MetricsTest, AFolderThatCannotBeMadeIsAnIoError) {
    std::string message;
    std::ofstream(dir + "/file") << "x";
    EXPECT_EQ(code_of([&] { Metrics metrics(dir + "/file"); }, &message), Exit::io);
    EXPECT_NE(message.find(dir + "/file/metrics.jsonl"), std::string::npos);
    EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST_F(MetricsTest, AVanishedFolderIsMadeAgain) {
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

/// While one of these exists, no file of this process can grow beyond so many bytes: a full disk without a mount.
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

TEST_F(MetricsTest, AFullDiskLeavesTheFileBeforeAndALaterPublishSucceeds) {
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

// Whatever part of a line still fits: what follows completes it.
TEST_F(MetricsTest, AFullDiskLosesNoLine) {
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

// A line that is not written when the run goes back is not written any more, and no later one is left out.
TEST_F(MetricsTest, LinesFollowARunThatGoesBack) {
    Metrics metrics(dir);
    for (int64_t step = 1; step <= 9000; ++step) metrics.add(train_row(step));
    metrics.write_lines();
    metrics.go_back({.step = 4500, .epochs_done = 0});
    for (int64_t step = 4501; step <= 4600; ++step) metrics.add(train_row(step));
    metrics.publish();
    const std::vector<int64_t> steps = integers(h5(), "train/step");
    ASSERT_EQ(steps.size(), 4600u);
    for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], int64_t(i) + 1);
    const std::vector<nlohmann::json> lines = json_lines(dir);
    ASSERT_EQ(lines.size(), 9100u);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(lines[size_t(9000 + i)]["step"], 4501 + i);
}

TEST_F(MetricsTest, PlotDrawsAPictureAndItsErrorsAreOneLine) {
    const fs::path script = fs::path(__FILE__).parent_path().parent_path() / "output" / "plot.py";
    const std::string python = python_with("h5py, numpy, matplotlib");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py, numpy and matplotlib";
    const std::string plot = python + " " + fs::absolute(script).string() + " ";
    const auto expect_error = [&](const std::string& arguments, int code, const std::string& says) {
        const auto [status, text] = shell(plot + arguments);
        EXPECT_EQ(status, code) << text;
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
        EXPECT_NE(text.find(says), std::string::npos) << text;
    };
    expect_error("", 2, "usage");
    expect_error(dir, 3, "no such file");
    Metrics metrics(dir);
    expect_error(dir, 3, "no rows");
    std::ofstream(dir + "/other.h5") << "not HDF5";
    expect_error(dir + "/other.h5", 3, "other.h5");

    fill(metrics);
    metrics.publish();
    const auto [status, text] = shell(plot + dir);
    ASSERT_EQ(status, 0) << text;
    EXPECT_EQ(text, dir + "/metrics.png\n");
    std::ifstream picture(dir + "/metrics.png", std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(picture), {});
    ASSERT_GT(bytes.size(), 20000u);
    EXPECT_EQ(bytes.substr(1, 3), "PNG");
    const auto big_endian = [&](size_t at) {
        return uint8_t(bytes[at]) << 24 | uint8_t(bytes[at + 1]) << 16 | uint8_t(bytes[at + 2]) << 8 | uint8_t(bytes[at + 3]);
    };
    EXPECT_GE(big_endian(16), 1000) << "width in pixels";
    EXPECT_GE(big_endian(20), 700) << "height in pixels";
}

}  // namespace
