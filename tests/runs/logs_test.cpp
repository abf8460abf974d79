// The lines of PyTorch's scripts that `--log-format` prints: each format compared with its sample
// in logs/, its numbers with the metrics. Also the files of --log-dir.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/durable.h"
#include "cli/progress_lines.h"
#include "tests/support/cluster.h"
#include "tests/support/sample_log.h"

namespace convoy::test {
namespace {

namespace fs = std::filesystem;
using Columns = std::vector<double>;

/// 100 images in steps of 30, 30, 30 and 10, two epochs, one line every second step.
class Logs : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 100, 37, "28x28x1"); }

    std::string command(const std::string& arguments) const {
        return "train --data " + data_ + " --model mnist-linear --epochs 2 --lr 0.01 --log-interval 2 --overwrite " +
               "--device cpu --output " + dir_.path("run") + " " + arguments;
    }
    Finished train(int ranks, const std::string& arguments) {
        Finished f = launch(ranks, command(arguments));
        EXPECT_EQ("", failure(f)) << arguments;
        return f;
    }
    Compared compare(const std::string& out, const std::string& sample) {
        Compared c = compare_with_sample(progress_lines_of(out), "tests/runs/logs/" + sample);
        EXPECT_EQ("", c.problem) << out;
        return c;
    }
    Columns of(const std::string& name) const { return column(dir_.path("run"), name); }
    std::string log(int rank) const { return dir_.path("logs/rank-000" + std::to_string(rank) + ".log"); }

    TempDir dir_;
    std::string data_ = dir_.path("data");
};

constexpr size_t steps_per_epoch = 4;
constexpr double images_of_step[steps_per_epoch] = {30, 30, 30, 10};

/// Returns the mean over an epoch's steps up to and including `step` of the run, counted from 0.
double mean_over_steps(const Columns& rows, size_t step) {
    const size_t first = step / steps_per_epoch * steps_per_epoch;
    return std::accumulate(rows.begin() + long(first), rows.begin() + long(step) + 1, 0.0) / double(step - first + 1);
}
double mean_over_images(const Columns& rows, size_t step) {
    double sum = 0, images = 0;
    for (size_t i = step / steps_per_epoch * steps_per_epoch; i <= step; ++i) {
        sum += rows.at(i) * images_of_step[i % steps_per_epoch];
        images += images_of_step[i % steps_per_epoch];
    }
    return sum / images;
}

/// Returns half of the last printed digit plus a float's error.
constexpr double digits(int n) { return n == 2 ? 0.00501 : n == 3 ? 0.000501 : n == 4 ? 5.01e-5 : 5.1e-7; }

TEST_F(Logs, PytorchExample) {
    const Compared c = compare(train(1, "--batch-size 30 --log-format pytorch-example").out, "pytorch-example.txt");
    ASSERT_EQ(c.numbers.size(), 13u);
    const Columns loss = of("train/loss"), test_loss = of("eval/loss"), accuracy = of("eval/accuracy"),
                  seconds = of("epochs/seconds"), test_seconds = of("eval/seconds");
    double took = 0;
    for (size_t epoch = 0; epoch < 2; ++epoch) {
        const auto* line = &c.numbers[6 * epoch];
        EXPECT_NEAR(line[0].at(0), loss.at(4 * epoch), digits(6));
        EXPECT_NEAR(line[1].at(0), loss.at(4 * epoch + 2), digits(6));
        EXPECT_NEAR(line[3].at(0), test_loss.at(epoch), digits(4));
        EXPECT_EQ(line[3].at(1), std::round(accuracy.at(epoch) * 37));
        EXPECT_NEAR(line[3].at(2), 100 * accuracy[epoch], 0.5);
        EXPECT_GE(line[5].at(0) + digits(3), seconds.at(epoch) + test_seconds.at(epoch)) << "both are in it";
        took += line[5].at(0);
    }
    EXPECT_LE(took, c.numbers[12].at(0) + 3 * digits(3)) << "the epochs are parts of the total";
}

// Rank 0 prints the lines of all ranks; the training figures are each rank's.
TEST_F(Logs, MnistLinearHasALineARank) {
    const std::string logs = " --log-dir " + dir_.path("logs");
    const Finished f = train(2, "--batch-size 30 --log-format mnist-linear" + logs);
    const Compared c = compare(f.out, "mnist-linear.txt");
    ASSERT_EQ(c.numbers.size(), 4u);
    const Columns loss = of("epochs/loss"), accuracy = of("epochs/accuracy"), images = of("rank_epochs/images"),
                  test_loss = of("eval/loss"), test_accuracy = of("eval/accuracy");
    EXPECT_EQ(images, (Columns{50, 50, 50, 50}));
    for (size_t epoch = 0; epoch < 2; ++epoch) {
        const Columns &first = c.numbers[2 * epoch], &second = c.numbers[2 * epoch + 1];
        EXPECT_NE(first.at(0), second.at(0)) << "the ranks see different images";
        EXPECT_NEAR((first[0] + second[0]) / 2, loss.at(epoch), digits(6));
        EXPECT_NEAR((first.at(1) + second.at(1)) / 2, 100 * accuracy.at(epoch), digits(2));
        for (const Columns& line : {first, second}) {
            EXPECT_NEAR(std::remainder(line[1], 100.0 / 50), 0, digits(2)) << "whole images of 50";
            EXPECT_NEAR(line.at(2), test_loss.at(epoch), digits(6));
            EXPECT_NEAR(line.at(3), 100 * test_accuracy.at(epoch), digits(2));
        }
    }
    for (size_t rank = 0; rank < 2; ++rank) {
        const std::vector<std::string> all = progress_lines_of(f.out);
        EXPECT_EQ(progress_lines_of(read_file(log(int(rank)))), (std::vector<std::string>{all[rank], all[2 + rank]}))
            << "the log of rank " << rank << " has its own lines";
    }
}

void expect_pyramidnet(const Compared& c, const Columns& loss, const Columns& accuracy, size_t first) {
    for (const size_t line : {0, 1, 3, 4}) {
        const size_t step = line / 3 * 4 + line % 3 * 2;
        EXPECT_NEAR(c.numbers.at(line).at(first), mean_over_steps(loss, step), digits(3)) << line;
        EXPECT_NEAR(c.numbers[line].at(first + 1), 100 * mean_over_images(accuracy, step), digits(3)) << line;
    }
}

// A global batch, as under DataParallel: the figures are those of all ranks.
TEST_F(Logs, PyramidnetHasRunningMeans) {
    for (const int ranks : {1, 2}) {
        const std::string options = ranks == 1 ? "--batch-per-rank 30" : "--batch-size 30";
        const Finished f = train(ranks, options + " --log-format pyramidnet --no-eval");
        const Compared c = compare(f.out, "pyramidnet.txt");
        ASSERT_EQ(c.numbers.size(), 6u);
        expect_pyramidnet(c, of("train/loss"), of("train/accuracy"), 0);
        const Columns step_seconds = of("train/step_seconds"), data_seconds = of("train/data_seconds"),
                      seconds = of("epochs/seconds");
        for (const size_t line : {0, 1, 3, 4}) {
            const size_t step = line / 3 * 4 + line % 3 * 2;
            EXPECT_NEAR(c.numbers[line].at(2), step_seconds.at(step) - data_seconds.at(step), digits(3));
        }
        EXPECT_NEAR(c.numbers[2].at(0), seconds.at(0), 1e-6);
        EXPECT_NEAR(c.numbers[5].at(0), seconds.at(1), 1e-6);
    }
}

// After step 1 of 4 the line of step 3 has the means of steps 2 and 3. The next epoch's means are
// complete.
TEST_F(Logs, PyramidnetHasMeansSinceTheRunWasResumed) {
    const std::string run = "train --device cpu --data " + data_ + " --model mnist-linear --lr 0.01 --batch-size 30 " +
                            "--epochs 2 --log-interval 2 --no-eval --log-format pyramidnet --output " +
                            dir_.path("run");
    ASSERT_EQ("", failure(launch(2, run + " --max-steps 1")));
    const Finished f = launch(2, run + " --resume auto");
    ASSERT_EQ("", failure(f));
    const std::string whole = read_file("tests/runs/logs/pyramidnet.txt"), sample = dir_.path("resumed.txt");
    write_file(sample, whole.substr(whole.find('\n') + 1));  // all lines except that of step 1
    const Compared c = compare_with_sample(progress_lines_of(f.out), sample);
    ASSERT_EQ("", c.problem) << f.out;
    const Columns loss = of("train/loss"), accuracy = of("train/accuracy");
    ASSERT_EQ(loss.size(), 2 * steps_per_epoch);
    const double since = (loss[1] + loss[2]) / 2;
    ASSERT_GT(std::abs(since - mean_over_steps(loss, 2)), 10 * digits(3)) << "or this test shows nothing";
    EXPECT_NEAR(c.numbers.at(0).at(0), since, digits(3));
    EXPECT_NEAR(c.numbers[0].at(1), 100 * (accuracy[1] + accuracy[2]) / 2, digits(3));
    for (const size_t line : {2, 3}) {
        const size_t step = steps_per_epoch + 2 * (line - 2);
        EXPECT_NEAR(c.numbers.at(line).at(0), mean_over_steps(loss, step), digits(3)) << line;
        EXPECT_NEAR(c.numbers[line].at(1), 100 * mean_over_images(accuracy, step), digits(3)) << line;
    }
}

// A batch per rank, as under DistributedDataParallel: each rank reports its own images, 15 of 30
// per step. Only rank 0's lines are shown.
TEST_F(Logs, PyramidnetOfEachRank) {
    const std::string logs = " --log-dir " + dir_.path("logs");
    const Finished f = train(2, "--batch-per-rank 15 --log-format pyramidnet --no-eval" + logs);
    const Compared shown = compare(f.out, "pyramidnet-ranks.txt");
    const Compared first = compare(read_file(log(0)), "pyramidnet-ranks.txt"),
                   second = compare(read_file(log(1)), "pyramidnet-ranks.txt");
    ASSERT_EQ(second.numbers.size(), 6u);
    EXPECT_EQ(shown.numbers, first.numbers);
    Compared mean = first;
    for (const size_t line : {0, 1, 3, 4}) {
        EXPECT_EQ(first.numbers[line].at(0), 0);
        EXPECT_EQ(second.numbers[line].at(0), 1);
        EXPECT_NE(first.numbers[line].at(1), second.numbers[line].at(1)) << "the ranks see different images";
        for (const size_t i : {1, 2}) mean.numbers[line][i] = (first.numbers[line][i] + second.numbers[line][i]) / 2;
    }
    expect_pyramidnet(mean, of("train/loss"), of("train/accuracy"), 1);
}

TEST_F(Logs, Imagenet) {
    const Compared c = compare(train(2, "--batch-size 30 --log-format imagenet").out, "imagenet.txt");
    ASSERT_EQ(c.numbers.size(), 6u);
    struct Meter {
        const char* column;
        double factor, tolerance;  // relative, for the loss
    };
    const std::vector<Meter> meters = {{"step_seconds", 1, digits(3)},
                                       {"data_seconds", 1, digits(3)},
                                       {"loss", 1, 1e-4},
                                       {"accuracy", 100, digits(2)},
                                       {"top5_accuracy", 100, digits(2)}};
    for (size_t m = 0; m < meters.size(); ++m) {
        const Columns rows = of(std::string("train/") + meters[m].column);
        for (const size_t line : {0, 1, 3, 4}) {
            const size_t step = line / 3 * 4 + line % 3 * 2;
            const double mean = m < 2 ? mean_over_steps(rows, step) : mean_over_images(rows, step);
            const std::vector<double>& numbers = c.numbers[line];
            EXPECT_NEAR(numbers.at(2 * m), meters[m].factor * rows.at(step), meters[m].tolerance) << meters[m].column;
            EXPECT_NEAR(numbers.at(2 * m + 1), meters[m].factor * mean, meters[m].tolerance) << meters[m].column;
        }
    }
    const Columns accuracy = of("eval/accuracy"), top5 = of("eval/top5_accuracy");
    for (size_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_NEAR(c.numbers[3 * epoch + 2].at(0), 100 * accuracy.at(epoch), digits(3));
        EXPECT_NEAR(c.numbers[3 * epoch + 2].at(1), 100 * top5.at(epoch), digits(3));
        EXPECT_GE(top5[epoch], accuracy[epoch]);
        EXPECT_NEAR(std::remainder(top5[epoch] * 37, 1), 0, 1e-9) << "whole images";
    }
}

// The run stopped after two steps of four: its lines continue within the epoch.
TEST_F(Logs, GoOnWithinAnEpoch) {
    train(1, "--batch-size 30 --log-format pytorch-example --max-steps 2");
    const std::string resumed = launch_command(1, "train --data " + data_ +
                                                      " --model mnist-linear --epochs 1 --lr 0.01 --log-interval 2 "
                                                      "--device cpu --resume auto --batch-size 30 "
                                                      "--log-format pytorch-example --output " +
                                                      dir_.path("run"));
    const Finished f = run(resumed);
    EXPECT_EQ("", failure(f));
    const std::vector<std::string> lines = progress_lines_of(f.out);
    ASSERT_GE(lines.size(), 5u) << f.out;
    EXPECT_TRUE(lines[0].starts_with("Train Epoch: 1 [60/100 (50%)]\tLoss: ")) << lines[0];
    EXPECT_TRUE(lines[2].starts_with("Test set: ")) << lines[2];
}

TEST_F(Logs, AreAppendedTo) {
    const std::string options = "--batch-size 30 --no-eval --log-format pytorch-example --log-dir " + dir_.path("logs");
    train(2, options);
    train(2, options);
    for (const int rank : {0, 1}) EXPECT_EQ(count(read_file(log(rank)), "Total time= "), 2) << rank;
    const std::string last = log(0).substr(0, log(0).size() - 5) + "2.log";
    EXPECT_FALSE(fs::exists(last)) << "a file a rank";
}

TEST_F(Logs, ThatCannotBeMadeAreRefused) {
    const std::string logs = dir_.path("logs"), options = "--batch-size 30 --log-dir " + logs;
    const auto refused = [&](Exit code, const std::vector<std::string>& words) {
        return refusal(launch(2, command(options)), code, words);
    };
    write_file(logs, "a file");
    EXPECT_EQ("", refused(Exit::io, {logs, "cannot be opened: Not a directory"}));
    EXPECT_EQ("", refusal(launch(2, command(options) + " --dry-run"), Exit::io, {logs, "choose another --log-dir"}));
    fs::remove(logs);
    fs::create_directories(log(1));
    EXPECT_EQ("", refused(Exit::io, {log(1), "cannot be written"}));
    fs::remove(log(1));
    fs::create_symlink(dir_.path("elsewhere"), log(1));
    EXPECT_EQ("", refused(Exit::io, {log(1), "symbolic link"}));
    EXPECT_FALSE(fs::exists(dir_.path("elsewhere"))) << "it was written through";
    fs::remove(log(1));
    ASSERT_EQ(::mkfifo(log(1).c_str(), 0600), 0);
    const int reader = ::open(log(1).c_str(), O_RDONLY | O_NONBLOCK);
    EXPECT_EQ("", refused(Exit::io, {log(1), "not a plain file"}));
    ::close(reader);
    fs::remove(log(1));
    const int other_run = ::open(log(1).c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_TRUE(lock_file(other_run));
    EXPECT_EQ("", refused(Exit::usage, {log(1), "another run"}));
    ::close(other_run);
    EXPECT_FALSE(fs::exists(dir_.path("run"))) << "before anything else is written";
}

// The script starts its clock when it has the batch; imagenet's starts it before it requests the
// batch.
TEST(LogsText, ABatchsTimeIsTheScripts) {
    StepRecord step;
    step.step = 1, step.step_seconds = 0.3, step.data_seconds = 0.046;
    for (const auto& [format, time] : {std::pair{LogFormat::pyramidnet, "batch time: 0.254s"},
                                       {LogFormat::imagenet, "Time  0.300 ( 0.300)\tData  0.046 ( 0.046)"}}) {
        const TempDir dir;
        std::FILE* file = std::fopen(dir.path("out").c_str(), "w");
        {
            Terminal terminal(file, true);
            make_progress_lines(format, {.total_steps = 9, .steps_per_epoch = 9}, terminal)->on_steps(1, {step});
        }
        std::fclose(file);
        EXPECT_NE(read_file(dir.path("out")).find(time), std::string::npos) << read_file(dir.path("out"));
    }
}

TEST(LogsText, TimesAreThoseOfPython) {
    for (const double seconds : {0.0, 0.25, 200.438088, 3600.0, 86399.999999, 86400.0, 93784.5, 200000.000001}) {
        const Finished python =
            run("python3 -c 'import datetime; print(datetime.timedelta(seconds=" + formatted("%.6f", seconds) + "))'");
        EXPECT_EQ(timedelta_text(seconds) + "\n", python.out);
    }
}

}  // namespace
}  // namespace convoy::test
