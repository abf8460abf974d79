// A feed of a GPU: the order of its uploads, and its memory. Skipped without a device.
// ops/feed_test.cpp and ops/staged_test.cpp test what steps read from it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "backend/cuda/device.h"
#include "backend/cuda_queries.h"
#include "tests/ops/op_harness.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class CudaFeed : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (cuda::describe_device(0).name != "emulated GPU") GTEST_SKIP() << "only the emulated device counts exactly";
    }
};

// Uploads may run as early or as late as the feed's events allow.
TEST_F(CudaFeed, StepsReadTheirOwnBatchInEveryOrder) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    for (const char* order : {"communication", "compute", "1", "2", "3", "4"}) {
        const Finished f = run(with_limit("env EMULATED_ORDER=" + std::string(order) + " " + self +
                                              " '--gtest_filter=All/FeedOn.*Batch*/cuda:All/FeedOn.Forgets*/cuda'",
                                          120));
        EXPECT_EQ(f.code, 0) << order << ": " << f.out << f.err;
        EXPECT_NE(f.out.find("OK ] All/FeedOn.EveryStepReadsItsOwnBatch/cuda"), std::string::npos) << f.out;
    }
}

// The emulated device does only the work that is waited for: an upload, but not the step that it
// overlaps with.
TEST_F(CudaFeed, AnUploadWaitsForTheLastStepButOne) {
    if (std::getenv("EMULATED_ORDER")) GTEST_SKIP() << "another order may do more than is waited for";
    const std::unique_ptr<Backend> gpu = make_test_backend("cuda");
    const std::unique_ptr<Feed> feed = gpu->feed(1, 1, 1);
    const auto claim = [&](uint8_t pixel) {
        const HostBatch batch = feed->claim(1);
        *batch.images = pixel;
        *batch.labels = pixel;
        *batch.places = {.offset = 0, .height = 1, .width = 1};
    };
    const Buffer counters = upload(*gpu, std::vector<Counters>(1)), x = gpu->allocate(sizeof(float)),
                 y = gpu->allocate(sizeof(int32_t));
    const auto* seen = static_cast<const int32_t*>(y.get());  // the device's memory is the host's
    Gather g{};
    g.images = {nullptr, {1, 1, 1, 1}, DType::u8};
    g.counters = static_cast<const Counters*>(counters.get());
    g.x = {x.get(), {}, DType::f32};
    g.y = {y.get(), {}, DType::i32};
    g.mean = {0};
    g.stddev = {1};
    g.staged = feed->batch();
    Tape tape;
    gpu->gather(g, tape);
    const std::function<void()> run = gpu->finish(std::move(tape));
    const auto step = [&] {
        feed->take();
        run();
    };
    claim(1);
    claim(2);
    step();
    step();
    claim(3);  // replaces the first batch, once that is uploaded
    claim(4);  // replaces the second batch
    EXPECT_EQ(*seen, 0) << "the second upload waited for the first step";
    step();
    claim(5);
    EXPECT_EQ(*seen, 1) << "the third waited for the second step, or not for the first";
    gpu->synchronize();
    EXPECT_EQ(*seen, 3);
}

TEST_F(CudaFeed, TakesTwoBatchesOfTheDevice) {
    const std::unique_ptr<Backend> gpu = make_test_backend("cuda");
    for (const int batch : {1, 100, 512})
        for (const size_t bytes : {size_t(0), size_t(12345), size_t(4) << 20}) {
            const size_t before = gpu->memory_taken();
            const std::unique_ptr<Feed> feed = gpu->feed(batch, bytes, 5);
            const size_t tables = (size_t(batch) * (16 + 4 + 4) + 255) / 256 * 256;  // places, labels and samples
            EXPECT_EQ(gpu->memory_taken() - before, 2 * (tables + bytes) + 3 * sizeof(StagedBatch));
        }
}

}  // namespace
}  // namespace convoy::test
