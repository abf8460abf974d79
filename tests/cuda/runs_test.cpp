// `convoy train --device cuda` on several ranks: communication between them. Skipped without one
// GPU per rank.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/device.h"
#include "backend/cuda/gradient_all_reduce.h"
#include "backend/cuda/handles.h"
#include "backend/cuda_queries.h"
#include "tests/ops/op_harness.h"
#include "tests/runs/resume.h"
#include "tests/support/test_comm.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

using namespace cuda;

class CudaRuns : public ResumeTest {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        if (find_devices().capabilities.size() < 2) GTEST_SKIP() << "there is one GPU";
    }
    static Options on_gpus(Options changes = {}) {
        changes["device"] = "cuda";
        changes["model"] = "mnist-linear";
        changes.try_emplace("epochs", "2");
        return changes;
    }
};

// An epoch has 398 steps. If a run took the request for a mere checkpoint, it would continue to the
// evaluation at the epoch's end, where the host reads the request itself.
TEST_F(CudaRuns, AreStoppedBySignalAndResumedBitForBit) {
    const Options options = {{"batch-size", "5"}};
    ASSERT_EQ("", failure(launch(2, train("whole", on_gpus(options)), 120)));
    const Finished stopped = interrupted(launch_command(2, train("part", on_gpus(options)), 120), "part", 20,
                                         signal_to_the_newest_rank("part", "USR1"));
    EXPECT_EQ(stopped.code, int(Exit::requeue)) << stopped.out << stopped.err;
    EXPECT_LT(column(dir_.path("part"), "train/step").size(), 398u);
    ASSERT_EQ("", failure(launch(2, train("part", on_gpus(resumed(options))), 120)));
    expect_same("whole", "part");
}

// The whitening bias is frozen after the fourth of nine steps: captured and step by step, on one
// device and on two, resumed before and after, with logical ranks.
TEST_F(CudaRuns, FreezeAWhiteningBiasInTheMiddle) {
    make_data(dir_.path("colours"), 18, 4, "32x32x3", 1);
    const std::string airbench = "train --config input/recipes/airbench94.cfg --device cuda --tuning 0 --data " +
                                 dir_.path("colours") +
                                 " --batch-size 4 --epochs 2.25 --whitening-bias-epochs 1 --log-interval 2 "
                                 "--no-eval --output ";
    const auto train = [&](int ranks, const std::string& run, const std::string& more) {
        return failure(launch(ranks, airbench + dir_.path(run) + more, 200));
    };
    ASSERT_EQ("", train(2, "captured", " --checkpoint-every 3 --keep 9"));
    ASSERT_EQ(column(dir_.path("captured"), "train/step").size(), 9u);
    ASSERT_EQ("", train(2, "eager", " --no-graph --checkpoint-every none"));
    expect_same("captured", "eager");
    const std::vector<double> losses = column(dir_.path("captured"), "train/loss");
    for (const int from : {3, 6}) {
        const std::string run = "from" + std::to_string(from);
        ASSERT_EQ("",
                  train(2, run, " --checkpoint-every none --resume " + checkpoint_path(dir_.path("captured"), from)));
        EXPECT_EQ(column(dir_.path(run), "train/loss"), std::vector<double>(losses.begin() + from, losses.end()));
        EXPECT_EQ(tensors(dir_.path(run) + "/model.h5"), tensors(dir_.path("captured") + "/model.h5"));
    }
    ASSERT_EQ("", train(1, "logical1", " --virtual-ranks 2"));
    ASSERT_EQ("", train(2, "logical2", " --virtual-ranks 2"));
    expect_same("logical1", "logical2");
}

// The last batch of an epoch is one sample. So the second rank has none, and stale gradients must
// not be added to the sum. The tolerance is that of sums in another order, as in CudaDevice.
TEST_F(CudaRuns, ARankWithoutSamplesAddsNothing) {
    make_data(dir_.path("odd"), 67, 9, "28x28x1");
    const Options options = on_gpus({{"data", dir_.path("odd")}, {"batch-size", "33"}, {"lr", "0.02"}});
    ASSERT_EQ("", failure(launch(1, train("one", options), 120)));
    ASSERT_EQ("", failure(launch(2, train("two", options), 120)));
    for (const char* name : {"train/loss", "eval/loss"})
        EXPECT_LE(deviation(column(dir_.path("two"), name), column(dir_.path("one"), name)), 1e-4) << name;
}

// bf16 has 8 bits: it has no odd number above 256.
TEST_F(CudaRuns, CountSamplesExactlyWithGradientsInBf16) {
    make_data(dir_.path("alike"), 1030, 10, "28x28x1", 1, 2);
    const Options options =
        on_gpus({{"data", dir_.path("alike")}, {"batch-size", "1030"}, {"epochs", "3"}, {"seed", "2"}});
    ASSERT_EQ("", failure(launch(1, train("one", options), 120)));
    ASSERT_EQ("", failure(launch(2, train("two", options) + " --bf16-gradients", 120)));
    const std::vector<double> one = column(dir_.path("one"), "train/accuracy"),
                              two = column(dir_.path("two"), "train/accuracy");
    ASSERT_EQ(one.size(), 3u);
    ASSERT_EQ(two.size(), 3u);
    const long long correct = std::llround(one[0] * 1030);
    EXPECT_GT(correct, 256);
    EXPECT_EQ(correct % 2, 1) << "the case is one that bf16 would round: take other data";
    EXPECT_EQ(one[0], two[0]) << "the weights of the first step are the same";
}

// The trainer reduces its first bucket, which begins with 16 counts, like this, and the others,
// which have none.
TEST_F(CudaRuns, SumTheHeadOfABucketExactly) {
    Comm& comm = test_comm();
    if (comm.size() == 1) {
        EXPECT_EQ(problem_on_ranks(2), "");
        return;
    }
    const std::unique_ptr<Backend> gpu = make_backend("cuda", {}, comm);
    const Stream compute, communication(true);
    const auto sums = connect_by_nccl(comm, compute.get(), communication.get(), true, *gpu);
    Floats values(64, 1.0f + 1.0f / 256);
    for (size_t i = 0; i < stats_elements; ++i) values[i] = float(257 + int(i) + comm.rank());
    for (const size_t exact : {stats_elements, size_t(0)}) {
        const Buffer data = upload(*gpu, values);
        sums->start(static_cast<float*>(data.get()), values.size(), exact);
        sums->wait();
        ASSERT_EQ(cudaStreamSynchronize(compute.get()), cudaSuccess);
        const Floats summed = download<float>(*gpu, data.get(), values.size());
        int rounded = 0;
        for (size_t i = 0; i < stats_elements; ++i) {
            const float sum = float(515 + 2 * int(i));
            EXPECT_NEAR(summed[i], sum, exact > 0 ? 0 : 4) << i;
            rounded += summed[i] != sum;
        }
        EXPECT_EQ(rounded > 0, exact == 0) << "no bytes are sent for counts where there are none";
        for (size_t i = stats_elements; i < values.size(); ++i)
            EXPECT_NEAR(summed[i], 2 + 2.0f / 256, 2.0f / 128) << "rounded to bf16";
    }
}

// Expected: NCCL's ring with its protocol Simple, on 4 lanes of PCIe. It takes 8.4 us, 5.7 us for
// each of two hops, and every byte passes once at 24 GB/s. LL128 and trees are slower at these
// sizes.
TEST_F(CudaRuns, CompareTheirSumsWithNcclsModel) {
    const Finished f = launch(
        2, "comm-test --device cuda --bytes 8M..16M --iterations 1 --cluster jobs/site/workstation-pcie.cluster");
    ASSERT_EQ("", failure(f));
    for (const double bytes : {8388608., 16777216.}) {
        const std::string expected = formatted(" %.2f ", 8.4 + 2 * 5.7 + bytes / 24e3);
        EXPECT_EQ(count(f.out, expected), 1) << expected << f.out;
    }
    EXPECT_EQ(count(f.out, "expected: median ratio ") + count(f.out, "or faster: median ratio "), 1) << f.out;
}

// Each rank compares every element, in place and out of place; a wrong one is exit code 6.
TEST_F(CudaRuns, SumOutOfPlaceToo) {
    const std::string table = "comm-test --device cuda --bytes 1K..8M --iterations 2 --log-format nccl-tests";
    for (const Finished& f : {launch(2, table), launch(2, table + " --share-device"), launch(1, table)}) {
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(count(f.out, " float     sum      -1 "), 14) << f.out;
        EXPECT_EQ(count(f.out, "# Out of bounds values : 0 OK\n"), 1) << f.out;
    }
}

// On the emulated device NCCL reports the value of EMULATED_TRANSPORT.
TEST_F(CudaRuns, SayWhatTheirSumsGoOver) {
    make_data(dir_.path("few"), 8, 4, "28x28x1");
    const auto said = [&](const std::string& environment, const std::string& name) {
        const Finished f =
            run("export " + environment + "; " +
                launch_command(2, train(name, on_gpus({{"data", dir_.path("few")}, {"batch-size", "4"}})), 120));
        EXPECT_EQ("", failure(f));
        const std::string label = "\nsums      over ranks by ";
        const size_t at = f.out.find(label), from = at + label.size();
        return at == std::string::npos ? "" : f.out.substr(from, f.out.find('\n', from) - from);
    };
    const std::string quiet = said("NCCL_DEBUG=WARN", "quiet");
    EXPECT_EQ(quiet, "NCCL") << "the user's own log is left alone";
    const std::string loud = said("EMULATED_TRANSPORT=NET/IB/3/GDRDMA", "loud");
    EXPECT_EQ(loud.find("NCCL over "), 0u) << loud;
    if (cuda_versions().back().second == "2.99.7") {
        EXPECT_EQ(loud, "NCCL over NET/IB/GDRDMA");
    }
    EXPECT_NE(run("h5dump -a /run/environment_sums_over_ranks " + dir_.path("loud") + "/metrics.h5").out.find(loud),
              std::string::npos);
}

}  // namespace
}  // namespace convoy::test
