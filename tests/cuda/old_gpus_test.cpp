// Trainings on an older GPU, which the emulated device claims to be. A build without that
// architecture says how to make one that has it; make test-cuda12 makes one.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

TEST(CudaOldGpus, AVoltaTrainsInF16AndIsRefusedBf16) {
    if (!is_emulated()) GTEST_SKIP() << "needs a GPU that can claim to be another";
    TempDir dir;
    make_data(dir.path("data"), 16, 4, "28x28x1", 1);
    const auto train = [&](const char* precision) {
        return mpirun("-x EMULATED_CAPABILITY=70 -np 2 " + sibling("convoy") +
                      " train --device cuda --model mnist-conv --batch-size 8 --epochs 1 --data " + dir.path("data") +
                      " --output " + dir.path(precision) + " --share-device --precision " + precision);
    };
    const bool built = cuda::runs_on(70, cuda::find_devices().architectures);
    for (const char* precision : {"bf16", "tf32"}) {
        const std::string needs = precision + std::string(" needs 8.0");
        EXPECT_EQ("", refusal(train(precision), Exit::usage,
                              built ? std::vector<std::string>{needs, "choose f32 or f16"}
                                    : std::vector<std::string>{"capability 7.0", "CUDA_ARCHS=70"}));
    }
    if (!built) GTEST_SKIP() << "trained on it only where CUDA_ARCHS has 70 or less: make test-cuda12";
    for (const char* precision : {"f16", "f32"}) {
        const Finished f = train(precision);
        EXPECT_EQ("", failure(f));
        EXPECT_NE(f.out.find("compute capability 7.0"), std::string::npos) << f.out;
    }
}

}  // namespace
}  // namespace convoy::test
