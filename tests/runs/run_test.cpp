// Effects of a run's options, and the files of a run: evaluation, rows of the metric files, the
// order of samples, threads, output.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <set>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class Run : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 100, 37, "28x28x1"); }
    Finished train(int ranks, const std::string& run, const std::string& arguments) {
        Finished f =
            launch(ranks, "train --data " + data_ + " --log-interval 1 --output " + dir_.path(run) + " " + arguments);
        EXPECT_EQ("", failure(f)) << arguments;
        return f;
    }
    std::vector<double> of(const std::string& run, const std::string& name) { return column(dir_.path(run), name); }

    TempDir dir_;
    std::string data_ = dir_.path("data");
};

// Evaluates one model file on every number of ranks, with batches with and without a tail: the
// count is the same, and so is the loss to the printed digit.
TEST_F(Run, EvaluationDoesNotDependOnRanksOrBatches) {
    const Finished trained =
        train(2, "run", "--model mnist-conv --batch-size 20 --epochs 20 --optimizer adam --lr 0.003");
    const Score truth = score_of(trained.out);
    EXPECT_EQ(truth.images, 37);
    EXPECT_GT(truth.correct, 8) << "chance is 3.7";
    EXPECT_DOUBLE_EQ(of("run", "eval/accuracy").back(), double(truth.correct) / 37);
    EXPECT_NEAR(of("run", "eval/loss").back(), truth.loss, 5.01e-5);
    for (int ranks = 1; ranks <= 4; ++ranks)
        for (const char* batch : {"", " --batch-per-rank 3"}) {
            const Finished e =
                launch(ranks, "evaluate --model-file " + dir_.path("run") + "/model.h5 --data " + data_ + batch);
            EXPECT_EQ("", failure(e));
            const Score score = score_of(e.out);
            EXPECT_EQ(score.correct, truth.correct) << ranks << " ranks" << batch;
            EXPECT_EQ(score.images, 37);
            EXPECT_NEAR(score.loss, of("run", "eval/loss").back(), 6e-5) << ranks << " ranks" << batch;
        }
    const Finished on_train =
        launch(2, "evaluate --split train --model-file " + dir_.path("run") + "/model.h5 --data " + data_);
    EXPECT_EQ("", failure(on_train));
    EXPECT_EQ(score_of(on_train.out).images, 100);
}

TEST_F(Run, StepsAndEpochsAreCounted) {
    const auto rows = [&](const std::string& run, const std::string& arguments) {
        train(2, run, "--model mnist-linear --batch-size 30 " + arguments);
        return std::vector<size_t>{of(run, "train/step").size(), of(run, "epochs/epoch").size(),
                                   of(run, "eval/step").size()};
    };
    using Rows = std::vector<size_t>;  // numbers of steps, epochs, evaluations
    EXPECT_EQ(rows("plain", "--epochs 2"), (Rows{8, 2, 2}));
    EXPECT_EQ(of("plain", "train/step"), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(of("plain", "train/epoch"), (std::vector<double>{1, 1, 1, 1, 2, 2, 2, 2}));
    EXPECT_EQ(of("plain", "eval/step"), (std::vector<double>{4, 8}));
    EXPECT_EQ(rows("drop", "--epochs 2 --drop-last"), (Rows{6, 2, 2}));
    EXPECT_EQ(rows("limit", "--epochs 9 --max-steps 5"), (Rows{5, 2, 2}));
    EXPECT_EQ(rows("seldom", "--epochs 5 --eval-every 2"), (Rows{20, 5, 3}));
    EXPECT_EQ(of("seldom", "eval/epoch"), (std::vector<double>{2, 4, 5}));
    EXPECT_EQ(rows("end", "--epochs 3 --eval-every 0"), (Rows{12, 3, 1}));
}

// 32 steps in 8 epochs.
TEST_F(Run, RowsOfSomeStepsCanBeLeftOut) {
    const Finished f = train(2, "some", "--model mnist-linear --batch-size 30 --epochs 8 --metrics-every 7 --keep 1");
    EXPECT_EQ(of("some", "train/step"), (std::vector<double>{7, 14, 21, 28, 32})) << "and the last";
    EXPECT_EQ(of("some", "epochs/epoch").size(), 8u);
    EXPECT_EQ(of("some", "eval/step").back(), 32);
    EXPECT_NE(f.out.find("metrics   of each 7th step are kept"), std::string::npos) << f.out;
    const std::string lines = read_file(dir_.path("some") + "/metrics.jsonl");
    EXPECT_EQ(count(lines, "\"kind\":\"train\""), 5);
    EXPECT_EQ(count(lines, "\"kind\":\"train\",\"step\":28,"), 1);
    EXPECT_NE(convoy_alone("report --format csv " + dir_.path("some")).out.find(",32,"), std::string::npos);
    train(2, "all", "--model mnist-linear --batch-size 30 --epochs 8");
    const std::vector<double> all = of("all", "train/loss"), some = of("some", "train/loss");
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(some[i], all[7 * i + 6]) << "a row is that of its step";
    EXPECT_EQ(of("some", "epochs/loss"), of("all", "epochs/loss"));
}

TEST_F(Run, EvaluationsCanBeShortOrLeftOut) {
    const Finished some = train(2, "some", "--model mnist-linear --batch-size 30 --eval-images 11");
    EXPECT_EQ(score_of(some.out).images, 11);
    EXPECT_EQ(of("some", "eval/step").size(), 1u);
    const Finished more = train(1, "more", "--model mnist-linear --batch-size 30 --eval-images 1000");
    EXPECT_EQ(score_of(more.out).images, 37) << "there are no more";
    // The rows of the test split cannot be read, and are not needed.
    const std::string shard = data_ + "/test-00000-of-00001.h5", bytes = read_file(shard);
    const size_t pixels = bytes.size() / 2;
    write_file(shard, bytes.substr(0, pixels) + std::string(64, '\x5a') + bytes.substr(pixels + 64));
    EXPECT_EQ(run(sibling("convoy") + " verify " + data_).code, 3) << "the damage is where it matters to nobody";
    const Finished none = train(2, "none", "--model mnist-linear --batch-size 30 --no-eval");
    EXPECT_EQ(of("none", "eval/step").size(), 0u);
    EXPECT_NE(none.out.find("and no test images"), std::string::npos) << none.out;
    EXPECT_NE(none.out.find("\ndone: not evaluated after 4 steps"), std::string::npos) << none.out;
    EXPECT_EQ(run("test -s " + dir_.path("none") + "/model.h5").code, 0);
    EXPECT_EQ(none.out.find("\nbatchnorm"), std::string::npos) << "mnist-linear has none";
}

// Compared with a count of the images and the clock of this test; the printed values are compared
// with the written ones.
TEST_F(Run, EpochRatesAreImagesOfAllRanksOverWallTime) {
    const auto start = std::chrono::steady_clock::now();
    const Finished f = train(2, "run", "--model mnist-linear --batch-size 30 --epochs 3");
    const double job = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::vector<double> images = of("run", "epochs/images"), seconds = of("run", "epochs/seconds"),
                              rates = of("run", "epochs/images_per_second"), epochs = of("run", "train/epoch"),
                              steps = of("run", "train/step_seconds");
    EXPECT_EQ(images, (std::vector<double>{100, 100, 100}));
    ASSERT_EQ(rates.size(), 3u);
    EXPECT_LE(std::accumulate(seconds.begin(), seconds.end(), 0.0), job);
    for (size_t e = 0; e < 3; ++e) {
        double computed = 0;
        for (size_t i = 0; i < steps.size(); ++i)
            if (epochs.at(i) == double(e + 1)) computed += steps[i];
        EXPECT_GE(seconds.at(e), computed) << "an epoch is not shorter than its steps";
        EXPECT_NEAR(rates[e], 100 / seconds[e], 1e-9 * rates[e]) << "epoch " << e + 1;
        char printed[64];
        std::snprintf(printed, sizeof printed, " %.0f images/s ", rates[e]);
        EXPECT_GE(count(f.out, printed), 1) << printed << "\n" << f.out;
    }
}

// At a rate of zero a loss depends only on the samples in the batch: other batches in each epoch,
// but the same samples in total.
TEST_F(Run, EveryEpochSeesEachSampleOnceInAnotherOrder) {
    train(2, "run", "--model mnist-linear --batch-size 20 --epochs 3 --lr 0 --momentum 0");
    const std::vector<double> loss = of("run", "train/loss");
    ASSERT_EQ(loss.size(), 15u);
    EXPECT_EQ(std::set<double>(loss.begin(), loss.end()).size(), 15u) << "a batch came twice";
    const double first = std::accumulate(loss.begin(), loss.begin() + 5, 0.0);
    for (int epoch = 1; epoch < 3; ++epoch)
        EXPECT_NEAR(std::accumulate(loss.begin() + 5 * epoch, loss.begin() + 5 * epoch + 5, 0.0), first, 1e-5 * first);
}

// At a rate of zero an epoch's averages equal those of `convoy evaluate` on the training split,
// whatever the size of the last batch.
TEST_F(Run, EpochAveragesAreOverImages) {
    for (const char* batch : {"99", "60", "100"}) {
        const Finished f =
            train(2, batch, std::string("--model mnist-linear --lr 0 --momentum 0 --batch-size ") + batch);
        const Finished e =
            launch(1, "evaluate --split train --model-file " + dir_.path(batch) + "/model.h5 --data " + data_);
        EXPECT_EQ("", failure(e));
        const Score truth = score_of(e.out);
        ASSERT_EQ(of(batch, "epochs/accuracy").size(), 1u);
        EXPECT_NEAR(of(batch, "epochs/accuracy")[0], double(truth.correct) / 100, 1e-9);
        EXPECT_NEAR(of(batch, "epochs/loss")[0], truth.loss, 6e-5);  // printed with four decimals
        char line[64];
        std::snprintf(line, sizeof line, "train loss %.4f accuracy %lld.00 %%", of(batch, "epochs/loss")[0],
                      truth.correct);
        EXPECT_NE(f.out.find(line), std::string::npos) << line << "\n" << f.out;
    }
}

TEST_F(Run, RanksShareTheCores) {
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    const int cores = CPU_COUNT(&mine);
    for (int ranks = 1; ranks <= 3; ++ranks) {
        const int share = std::max(1, cores / ranks);
        const std::string run = std::to_string(ranks);
        const Finished f = train(ranks, run, "--model mnist-linear --batch-size 30 --max-steps 2");
        EXPECT_EQ(of(run, "ranks/threads"), std::vector<double>(size_t(ranks), share));
        EXPECT_NE(f.out.find(", " + std::to_string(share) + (share == 1 ? " thread" : " threads")), std::string::npos)
            << f.out;
    }
    train(2, "given", "--model mnist-linear --batch-size 30 --max-steps 2 --threads 1");
    EXPECT_EQ(of("given", "ranks/threads"), (std::vector<double>{1, 1}));
}

// Under mpirun the first rank has a pseudo-terminal even if mpirun's own output goes to a file, as
// it does here.
TEST_F(Run, OutputToAFileIsPlainLines) {
    for (int ranks = 1; ranks <= 2; ++ranks) {
        const Finished f = train(ranks, std::to_string(ranks), "--model mnist-linear --batch-size 30");
        const std::string text =
            f.out.find("\r\n") == std::string::npos ? f.out : "carriage returns end the lines: " + f.out;
        EXPECT_EQ(count(text, "\r") + count(text, "\033"), 0) << text;
        EXPECT_EQ(count(text, "\nepoch 1/1  step "), 4) << text;
        EXPECT_EQ(count(text, "\ndone: "), 1) << text;
    }
}

TEST_F(Run, ThirtyTwoRanksTrainCheckpointAndEnd) {
    const auto start = std::chrono::steady_clock::now();
    const Finished f = launch(32,
                              "train --data " + data_ +
                                  " --model mnist-linear --batch-size 64 --epochs 99 --max-steps 20 --checkpoint-every "
                                  "8 --log-interval 1 --output " +
                                  dir_.path("run"),
                              120);
    EXPECT_EQ("", failure(f));
    std::printf("32 ranks took %.1f s\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    EXPECT_EQ(of("run", "train/step").size(), 20u);
    EXPECT_NE(run("ls " + dir_.path("run") + "/checkpoints").out.find("step-000000000020.h5"), std::string::npos);
    EXPECT_EQ(of("run", "ranks/rank").size(), 32u);
    EXPECT_EQ(score_of(f.out).images, 37);
    train(1, "one", "--model mnist-linear --batch-size 64 --epochs 99 --max-steps 20");
    EXPECT_LE(deviation(of("run", "train/loss"), of("one", "train/loss")), 1e-5);
}

}  // namespace
}  // namespace convoy::test
