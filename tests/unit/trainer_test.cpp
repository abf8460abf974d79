// The training loop, on backends that behave in ways a CPU does not: steps continue after their
// call returned, as on a GPU, and gradients are not finite at a chosen step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "model/models.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"
#include "tests/unit/odd_backend.h"
#include "train/trainer.h"

namespace convoy::test {
namespace {

/// Trains 3 epochs of 10 steps, and the last step of each epoch is smaller.
class TrainerLoop : public testing::Test {
protected:
    TrainerLoop() {
        make_data(dir_.path("data"), 190, 30, "28x28x1", 1);
        setup_.schedule.base = 0.05;
        setup_.global_batch = 20;
        setup_.epochs = 3;
    }
    void train(Recorder& recorder) {
        const SplitReader train(dir_.path("data"), "train"), test(dir_.path("data"), "test");
        const DataSet train_data(test_comm(), backend_, train), test_data(test_comm(), backend_, test);
        setup_.preprocessing = {train.info().mean, train.info().stddev};
        const Graph graph = fuse(build_model({"mnist-linear", 28, 28, 1, 10, "auto", 0, true}));
        Requests requests;
        Trainer trainer(test_comm(), backend_, graph, train_data, &test_data, setup_, requests);
        if (look_) backend_.within = [&] { look_(trainer); };
        trainer.programs().prepare();
        trainer.programs().build();
        trainer.programs().initialise();
        trainer.run(recorder);
        backend_.within = {};
    }
    std::string failure_of_training() {
        Recorder recorder;
        try {
            train(recorder);
        } catch (const Error& error) {
            EXPECT_EQ(error.code, Exit::not_finite);
            EXPECT_TRUE(error.everywhere);
            EXPECT_EQ(recorder.records.back().step, backend_.poisoned_step) << "the step that failed must be reported";
            return error.what();
        }
        return "";
    }

    TempDir dir_;
    OddBackend backend_;
    TrainSetup setup_;
    std::function<void(const Trainer&)> look_;  // called in the middle of steps and evaluations
};

// The state that LastResort saves. It is read in the middle of every step, and compared with the
// checkpoints of the same steps.
TEST_F(TrainerLoop, WithinAStepTheSnapshotIsOfTheStateBefore) {
    setup_.checkpoint_steps = 1;
    backend_.snapshotting = true;
    for (const bool asynchronous : {false, true}) {
        backend_.set_asynchronous(asynchronous);
        std::vector<Checkpoint> snapshots;
        Recorder recorder;
        look_ = [&](const Trainer& trainer) {
            std::optional<Checkpoint> c = trainer.snapshot(-1);
            ASSERT_TRUE(c) << "nothing to go on from";
            EXPECT_EQ(trainer.snapshot_step(), c->step);
            EXPECT_FALSE(trainer.snapshot(c->step)) << "it is not newer than itself";
            EXPECT_EQ(int64_t(recorder.records.size()), c->step) << "its rows must have been reported";
            snapshots.push_back(*std::move(c));
        };
        train(recorder);
        ASSERT_EQ(snapshots.size(), 30u + 3 * 2u) << "30 steps, and test images in two batches after each epoch";
        size_t looked = 0;
        for (int64_t step = 0; step < 30; ++step) {
            EXPECT_EQ(snapshots[looked].step, step);
            EXPECT_FALSE(snapshots[looked].evaluation_due);
            ++looked;
            if ((step + 1) % 10 != 0) continue;
            for (int batch = 0; batch < 2; ++batch, ++looked) {
                EXPECT_EQ(snapshots[looked].step, step + 1);
                EXPECT_TRUE(snapshots[looked].evaluation_due);
            }
        }
        for (const Checkpoint& c : recorder.checkpoints)
            for (const Checkpoint& h : snapshots)
                if (h.step == c.step) {
                    EXPECT_EQ(h.weights, c.weights) << c.step;
                    EXPECT_EQ(h.optimizer, c.optimizer) << c.step;
                    EXPECT_EQ(h.running, c.running) << c.step;
                    EXPECT_EQ(h.epoch, c.epoch);
                    EXPECT_EQ(h.offset, c.offset);
                }
    }
}

// On two ranks a request of either one counts.
TEST_F(TrainerLoop, ShortStepsTakeNoSnapshot) {
    setup_.log_interval = 2;  // steps in flight if they are asynchronous
    for (const bool asynchronous : {false, true}) {
        backend_.set_asynchronous(asynchronous);
        std::vector<std::optional<int64_t>> snapshots;
        look_ = [&](const Trainer& trainer) { snapshots.push_back(trainer.snapshot_step()); };
        Recorder recorder;
        train(recorder);
        ASSERT_GE(snapshots.size(), 30u);
        if (test_comm().root()) {
            EXPECT_EQ(snapshots[0], 0) << "the start, for it is not known yet how long a step takes";
        }
        const auto is_long = [](const StepRecord& r) { return r.step_seconds > 0.1; };
        // the machine is too busy
        if (std::any_of(recorder.records.begin(), recorder.records.end(), is_long)) continue;
        EXPECT_EQ(snapshots[5], std::nullopt) << "weights have changed since";
        EXPECT_EQ(snapshots[8], std::nullopt);
    }
    if (test_comm().size() == 1) {
        EXPECT_EQ("", problem_on_ranks(2));
    }
}

TEST_F(TrainerLoop, AfterARollbackNoSnapshotIsLater) {
    setup_.on_nan = OnNan::rollback;
    setup_.checkpoint_steps = 4;
    backend_.snapshotting = true;
    for (const bool asynchronous : {false, true}) {
        backend_.set_asynchronous(asynchronous);
        backend_.poisoned_step = asynchronous ? 18 : 15;  // each is poisoned once
        bool looked = false;
        look_ = [&](const Trainer& trainer) {
            looked = true;
            EXPECT_LE(trainer.snapshot_step().value_or(0), trainer.progress().step);
        };
        Recorder recorder;
        train(recorder);
        EXPECT_TRUE(looked);
        EXPECT_GT(recorder.records.size(), 30u) << "nothing was done again";
    }
}

TEST_F(TrainerLoop, StepsThatRunOnAreDrainedAndCheckpointedAtTheSamePlaces) {
    setup_.checkpoint_steps = 4;
    setup_.log_interval = 7;
    Recorder plain, odd;
    train(plain);
    backend_.set_asynchronous(true);
    train(odd);
    EXPECT_EQ(plain.losses().size(), 30u);
    EXPECT_EQ(plain.losses(), odd.losses());
    EXPECT_EQ(plain.checkpoint_steps(), odd.checkpoint_steps());
    for (int64_t step = 4; step <= 28; step += 4) {
        const std::vector<int64_t> steps = odd.checkpoint_steps();
        EXPECT_TRUE(std::count(steps.begin(), steps.end(), step)) << step;
    }
    EXPECT_EQ(odd.images, (std::vector<int64_t>{190, 190, 190}));
    EXPECT_EQ(odd.evaluations, (std::vector<int64_t>{10, 20, 30}));
}

// Two steps between looks. The first look waits for all steps, because their duration is not known
// yet. So do those at the end of an epoch. The others leave the device two steps to do.
TEST_F(TrainerLoop, StepsThatRunOnAreLookedAtLate) {
    setup_.log_interval = 2;
    Recorder plain, late;
    train(plain);
    backend_.set_asynchronous(true);
    backend_.launched = 0;
    backend_.waits.clear();
    train(late);
    EXPECT_EQ(late.losses(), plain.losses());
    const auto is_long = [](const StepRecord& r) { return r.step_seconds > 0.1; };
    if (std::any_of(late.records.begin(), late.records.end(), is_long)) GTEST_SKIP() << "the machine is too busy";
    std::vector<int64_t> left;  // steps still to do while the host waits, in the order of its waits within epochs
    for (const OddBackend::Wait& w : backend_.waits)
        if (w.launched % 10 != 0) left.push_back(w.launched - w.until);
    // Looks of each epoch come after 2, 4, 6 and 8 steps. The first two wait for all of the first
    // epoch's steps. Then, in every epoch, the first late one finds nothing to wait for.
    EXPECT_EQ(left, (std::vector<int64_t>{0, 0, 2, 2, 2, 2, 2, 2, 2}));
}

// Steps after the one that made the request are in the checkpoint and in the rows.
TEST_F(TrainerLoop, ARequestThatIsSeenLateStopsBetweenTwoSteps) {
    setup_.log_interval = 3;
    backend_.set_asynchronous(true);
    Recorder recorder;
    train(recorder);
    const std::vector<double> whole = recorder.losses();
    for (const int64_t step : {7, 8, 14}) {
        Recorder r;
        backend_.launched = 0;
        backend_.stop_at = step;
        train(r);
        backend_.stop_at = 0;
        const auto done = int64_t(r.records.size());
        EXPECT_GE(done, step);
        EXPECT_LE(done, step + 2 * 3);
        EXPECT_EQ(r.records.back().step, done);
        EXPECT_EQ(r.checkpoints.back().step, done);
        EXPECT_EQ(r.losses(), std::vector<double>(whole.begin(), whole.begin() + done));
    }
}

TEST_F(TrainerLoop, NotFiniteStops) {
    for (const bool asynchronous : {false, true}) {
        backend_.set_asynchronous(asynchronous);
        backend_.poison_again = true;
        backend_.poisoned_step = 10;  // the last of the steps that are drained together
        const std::string message = failure_of_training();
        EXPECT_NE(message.find("step 10"), std::string::npos) << message;
        EXPECT_NE(message.find("a gradient is not"), std::string::npos) << message;
    }
}

TEST_F(TrainerLoop, NotFiniteSkipsOneUpdate) {
    setup_.on_nan = OnNan::skip;
    Recorder plain, odd;
    train(plain);
    backend_.poisoned_step = 13;
    train(odd);
    ASSERT_EQ(odd.records.size(), 30u);
    for (const StepRecord& r : odd.records) EXPECT_EQ(r.skipped, r.step == 13) << r.step;
    for (size_t i = 0; i < 30; ++i)
        if (i < 13)
            EXPECT_EQ(odd.losses()[i], plain.losses()[i]);
        else
            EXPECT_TRUE(std::isfinite(odd.losses()[i]));
    EXPECT_NE(odd.losses()[13], plain.losses()[13]) << "the update of step 13 must be missing";
}

// 16 in a row are too many; scattered ones are not added up.
TEST_F(TrainerLoop, OnlySkippedStepsInARowStop) {
    setup_.on_nan = OnNan::skip;
    setup_.epochs = 4;
    for (const bool asynchronous : {false, true}) {
        backend_.set_asynchronous(asynchronous);
        setup_.log_interval = asynchronous ? 7 : 1;
        backend_.poisons = [](int64_t step) { return step % 2 == 0; };
        Recorder scattered;
        train(scattered);
        EXPECT_EQ(scattered.records.size(), 40u);
        backend_.poisons = [](int64_t step) { return step != 17; };  // 16 before it
        EXPECT_EQ("", problem_of_error(Exit::not_finite, {"step 16"}, [&] {
                      Recorder recorder;
                      train(recorder);
                  }));
        backend_.poisons = [](int64_t step) { return step % 16 != 0; };  // 15 at most
        Recorder fifteen;
        train(fifteen);
        EXPECT_EQ(fifteen.records.size(), 40u);
    }
}

TEST_F(TrainerLoop, NotFiniteGoesBack) {
    setup_.on_nan = OnNan::rollback;
    setup_.checkpoint_steps = 4;
    backend_.poisoned_step = 15;
    for (const bool asynchronous : {false, true}) {
        backend_.set_asynchronous(asynchronous);
        setup_.log_interval = asynchronous ? 7 : 1;
        backend_.poisoned_step = asynchronous ? 14 : 15;
        Recorder r;
        train(r);
        // Step 12 is the newest checkpoint; after it the rate is half.
        EXPECT_EQ(r.records.back().step, 30);
        const auto failed =
            std::find_if(r.records.begin(), r.records.end(), [](const StepRecord& s) { return s.skipped; });
        ASSERT_NE(failed, r.records.end());
        EXPECT_EQ(failed->step, backend_.poisoned_step);
        const auto again = std::find_if(failed, r.records.end(), [](const StepRecord& s) { return !s.skipped; });
        ASSERT_NE(again, r.records.end());
        EXPECT_EQ(again->step, 13);
        EXPECT_EQ(std::count_if(again, r.records.end(), [](const StepRecord& s) { return s.skipped; }), 0);
        EXPECT_FLOAT_EQ(float(again->learning_rate), float(failed->learning_rate / 2));
        EXPECT_EQ(r.checkpoints.back().rate_factor, 0.5);
        EXPECT_EQ(r.evaluations, (std::vector<int64_t>{10, 20, 30}));
    }
}

TEST_F(TrainerLoop, NotFiniteAgainAndAgainStopsInTheEnd) {
    setup_.on_nan = OnNan::rollback;
    backend_.poison_again = true;
    backend_.poisoned_step = 5;
    EXPECT_NE(failure_of_training().find("step 5"), std::string::npos);
    Recorder recorder;
    EXPECT_EQ("", problem_of_error(Exit::not_finite, {"learning rate 0.000195"}, [&] { train(recorder); }))
        << "the rate may fall to a 256th";
    EXPECT_EQ(
        std::count_if(recorder.records.begin(), recorder.records.end(), [](const StepRecord& r) { return r.skipped; }),
        1 + 8);
}

}  // namespace
}  // namespace convoy::test
