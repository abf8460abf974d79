// A feed: every step reads the batch taken before it, however many batches ahead the host is. Also
// the feed's memory and time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/gpu/dry_run_backend.h"
#include "tests/ops/op_harness.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

constexpr int rows = 3, side = 10, channels = 3;
constexpr size_t image = size_t(side) * side * channels, pixels = rows * image;
constexpr int64_t most_steps = 32;

/// Pixel values that identify a batch: one at its beginning, one at its end.
int first_of(int64_t batch) { return int(1 + batch * 7 % 200); }
int last_of(int64_t batch) { return int(1 + batch * 13 % 200); }

void fill(const HostBatch& to, int64_t batch, size_t bytes = pixels) {
    std::fill_n(to.images, bytes, uint8_t(255));
    const auto begin = int64_t(bytes - pixels);  // the images are at the end of the buffer
    to.images[begin] = uint8_t(first_of(batch));
    to.images[bytes - 1] = uint8_t(last_of(batch));
    for (int i = 0; i < rows; ++i) {
        to.labels[i] = i;
        to.samples[i] = i;
        to.places[i] = {begin + int64_t(i * image), side, side};
    }
}

/// A training step that only gathers a staged batch, twice, and records pixels that identify it:
/// the first one as loss, the last one as accuracy.
class FeedSteps {
public:
    FeedSteps(Backend& backend, Feed& feed) : backend_(backend), feed_(feed) {
        Gather g{};
        g.images = {nullptr, {1000, side, side, channels}, DType::u8};
        g.labels = {nullptr, {1000, 1, 1, 1}, DType::i32};
        g.counters = static_cast<const Counters*>(counters_.get());
        g.y = {y_.get(), {rows, 1, 1, 1}, DType::i32};
        g.mean = Floats(channels, 0);
        g.stddev = Floats(channels, 1);
        g.staged = feed.batch();
        Tape tape;
        auto* stats = static_cast<float*>(stats_.get());
        for (const auto& [x, at, seen] : {std::tuple{x_.get(), size_t(0), 0}, {again_.get(), pixels - 1, 1}}) {
            g.x = {x, {rows, side, side, channels}, DType::f32};
            backend.gather(g, tape);
            backend.add_scaled({static_cast<float*>(x) + at, {}, DType::f32}, 255, {stats + seen, {}, DType::f32},
                               false, tape);
        }
        Tape last;
        backend.record({.stats = static_cast<const BatchStats*>(stats_.get()),
                        .own = nullptr,
                        .learning_rates = static_cast<const float*>(rates_.get()),
                        .ring = static_cast<StepRecord*>(ring_.get()),
                        .ring_size = most_steps,
                        .counters = static_cast<Counters*>(counters_.get()),
                        .batch = rows,
                        .global_batch = 1},
                       last);
        tape.append(last);
        run_ = backend.finish(std::move(tape));
        record_ = backend.finish(std::move(last));
    }
    HostBatch claim(size_t bytes = pixels) { return feed_.claim(bytes); }
    void step() {
        feed_.begin_step();
        feed_.take();
        run();
    }
    void run() {
        run_();
        ++done_;
    }
    /// Runs only the end of a step.
    void record() {
        record_();
        ++done_;
    }
    std::vector<StepRecord> records() {
        backend_.synchronize();
        return download<StepRecord>(backend_, ring_.get(), size_t(done_));
    }
    /// Checks which batch each step read.
    void expect(const std::vector<int64_t>& batches) {
        const std::vector<StepRecord> seen = records();
        ASSERT_EQ(seen.size(), batches.size());
        for (size_t i = 0; i < seen.size(); ++i) {
            EXPECT_NEAR(seen[i].loss, first_of(batches[i]), 0.01) << "step " << i;
            EXPECT_NEAR(seen[i].accuracy, last_of(batches[i]), 0.01) << "step " << i;
        }
    }

private:
    template <class T> Buffer zeros(size_t count) { return backend_.allocate(count * sizeof(T)); }

    Backend& backend_;
    Feed& feed_;
    Buffer x_ = zeros<float>(pixels), again_ = zeros<float>(pixels), y_ = zeros<int32_t>(rows),
           stats_ = zeros<BatchStats>(1), counters_ = zeros<Counters>(1), rates_ = zeros<float>(most_steps),
           ring_ = zeros<StepRecord>(most_steps);
    std::function<void()> run_, record_;
    int64_t done_ = 0;
};

std::vector<int64_t> numbers(int64_t count) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(i);
    return all;
}

class FeedOn : public testing::TestWithParam<std::string> {
protected:
    Backend* const backend_ = &shared_backend(GetParam());

    /// Runs steps like a training, `ahead` batches ahead. Only claim() waits for the device.
    void train(int ahead, bool ask, const std::function<size_t(int64_t)>& bytes) {
        const std::unique_ptr<Feed> feed = backend_->feed(rows, pixels, ahead);
        FeedSteps steps(*backend_, *feed);
        int64_t batch = 0;
        const auto claim = [&] {
            while (ask && !feed->ready()) std::this_thread::yield();
            fill(steps.claim(bytes(batch)), batch, bytes(batch));
            ++batch;
        };
        while (batch <= ahead) claim();
        for (int i = 0; i < most_steps; ++i) {
            steps.step();
            claim();
        }
        steps.expect(numbers(most_steps));
    }
};

TEST_P(FeedOn, EveryStepReadsItsOwnBatch) {
    for (const int ahead : {0, 1, 2, 5})
        for (const bool ask : {false, true}) {
            SCOPED_TRACE(std::to_string(ahead) + (ask ? " asking first" : ""));
            train(ahead, ask, [](int64_t) { return pixels; });
        }
}

TEST_P(FeedOn, BatchesGrow) {
    for (const int ahead : {0, 2}) train(ahead, false, [](int64_t batch) { return pixels + 100 * size_t(batch / 3); });
}

// Later claims do not overwrite the batch, unless they claim its own buffer.
TEST_P(FeedOn, ABatchStaysWhileRoomGrows) {
    const std::unique_ptr<Feed> feed = backend_->feed(rows, 1, 2);
    FeedSteps steps(*backend_, *feed);
    fill(steps.claim(), 0);
    steps.step();
    fill(steps.claim(2 * pixels), 1, 2 * pixels);
    steps.run();
    fill(steps.claim(40 * pixels), 2, 40 * pixels);
    steps.run();
    steps.step();
    steps.step();
    steps.expect({0, 0, 0, 1, 2});
}

TEST_P(FeedOn, ForgetsWhatIsClaimed) {
    const std::unique_ptr<Feed> feed = backend_->feed(rows, pixels, 2);
    FeedSteps steps(*backend_, *feed);
    for (int64_t batch = 0; batch < 3; ++batch) fill(steps.claim(), batch);
    feed->clear();
    for (int64_t batch = 10; batch < 13; ++batch) fill(steps.claim(), batch);
    steps.step();
    feed->clear();
    fill(steps.claim(), 20);
    steps.run();
    steps.step();
    steps.expect({10, 10, 20});
}

TEST_P(FeedOn, TwoOfThemDoNotMeet) {
    const std::unique_ptr<Feed> feed = backend_->feed(rows, pixels, 1), other = backend_->feed(rows, pixels, 1);
    FeedSteps steps(*backend_, *feed), others(*backend_, *other);
    for (int64_t batch = 0; batch < 10; ++batch) {
        fill(steps.claim(), batch);
        fill(others.claim(), 50 + batch);
        steps.step();
        others.step();
    }
    steps.expect(numbers(10));
    others.expect({50, 51, 52, 53, 54, 55, 56, 57, 58, 59});
}

TEST_P(FeedOn, RefusesWhatHasNoRoom) {
    const std::unique_ptr<Feed> feed = backend_->feed(rows, pixels, 1);
    EXPECT_THROW(feed->take(), std::logic_error);
    feed->claim(pixels);
    feed->claim(pixels);
    EXPECT_THROW(feed->claim(pixels), std::logic_error);
    try {
        feed->clear();
        feed->claim(size_t(1) << 50);
        FAIL() << "there is no such memory";
    } catch (const Error& error) {
        EXPECT_EQ(error.code, Exit::out_of_memory) << error.what();
    }
}

// The wait for the producer counts; time before begin_step() does not. The emulated device's clock
// advances a microsecond at every reading: a record reads it once, a gather once at its end.
TEST_P(FeedOn, TheTimeOfDataBeginsWithTheStep) {
    constexpr double waited = 0.03, look = 1e-6;  // seconds
    constexpr int looks = 7, gathers = 2;
    const bool emulated = backend_->facts().device.find("emulated GPU") != std::string::npos;
    const std::unique_ptr<Feed> feed = backend_->feed(rows, pixels, 1), other = backend_->feed(rows, pixels, 1);
    FeedSteps steps(*backend_, *feed), clock(*backend_, *other);
    const auto wait = [&] {
        backend_->synchronize();
        std::this_thread::sleep_for(std::chrono::duration<double>(waited));
        for (int i = 0; i < looks; ++i) clock.record();
    };
    for (int step = 0; step < 4; ++step) {  // eager, captured, replayed
        fill(steps.claim(), step);
        if (step % 2 == 0) wait();
        feed->begin_step();
        if (step % 2 == 1) wait();
        feed->take();
        steps.run();
    }
    for (const StepRecord& r : steps.records()) {
        const bool producer_waited = r.step % 2 == 0;
        EXPECT_GE(r.step_seconds, r.data_seconds);
        if (emulated)
            EXPECT_NEAR(r.data_seconds, look * (producer_waited ? looks + gathers : gathers), 1e-3 * look);
        else
            EXPECT_GE(r.data_seconds, producer_waited ? waited : 0);
    }
}

INSTANTIATE_TEST_SUITE_P(All, FeedOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });

MemoryBudget::Part part(size_t bytes) {
    const MemoryLimit limit{.left = bytes, .name = "a test's limit", .remedy = "", .group = "", .shared_counts = true};
    return {limit, 1};
}

TEST(Feed, TakesMemoryOfTheBudgetAndGivesItBack) {
    constexpr size_t mib = size_t(1) << 20, left_over = 64 * mib, huge = 2 * mib;
    BackendOptions options;
    options.threads = 1;
    // The backend itself takes all memory except left_over.
    const auto fits = [&](size_t bytes, int ahead, size_t grown_to) {
        cpu::CpuBackend backend(options, test_comm(), "", MemoryBudget({part(32 * mib + 4 * 8 * mib + left_over)}));
        try {
            for (int round = 0; round < 3; ++round) {
                const std::unique_ptr<Feed> feed = backend.feed(1000, bytes, ahead);
                if (grown_to > 0) feed->claim(grown_to);
            }
            return true;
        } catch (const Error& error) {
            EXPECT_EQ(error.code, Exit::out_of_memory);
            EXPECT_NE(std::string(error.what()).find("a batch that is read ahead takes"), std::string::npos)
                << error.what();
            return false;
        }
    };
    const size_t table = 1000 * (16 + 4 + 4) + 256;  // upper bound for places, labels and samples
    EXPECT_TRUE(fits(left_over / 4 - table, 3, 0));
    EXPECT_FALSE(fits(left_over / 4 - table, 4, 0));
    EXPECT_FALSE(fits(left_over / 4 + 1, 3, 0)) << "whole pages of " << huge;
    EXPECT_TRUE(fits(left_over / 8 - table, 3, left_over / 2));
    EXPECT_FALSE(fits(left_over / 8 - table, 3, left_over));
}

TEST(Feed, IsPlannedWithTwoBatchesOnAGpu) {
    for (const int batch : {1, 100, 512})
        for (const size_t bytes : {size_t(0), size_t(12345), size_t(64) << 20}) {
            DryRunBackend gpu("no GPU", size_t(1) << 40, "", {}, 1);
            const size_t before = gpu.memory_taken();
            const std::unique_ptr<Feed> feed = gpu.feed(batch, bytes, 5);
            const auto aligned = [](size_t n) { return (n + 255) / 256 * 256; };
            const size_t tables = aligned(size_t(batch) * (16 + 4 + 4));
            EXPECT_EQ(gpu.memory_taken() - before, 2 * aligned(tables + bytes) + 256);
            EXPECT_NE(feed->batch(), nullptr);
        }
}

}  // namespace
}  // namespace convoy::test
