// Versions of CUDA's libraries that a run on a GPU or on the emulated device records, compared with
// those that the libraries report.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda_queries.h"
#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

using namespace cuda;

using Texts = std::map<std::string, std::string>;

/// Returns versions from each library's own call. For the driver: the newest CUDA that it supports.
Texts said_by_libraries() {
    int driver = 0, nccl = 0;
    EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
    EXPECT_EQ(ncclGetVersion(&nccl), ncclSuccess);
    char driver_text[16], cuda_text[16], nccl_text[16];
    std::snprintf(driver_text, sizeof driver_text, "%d.%d", driver / 1000, driver % 1000 / 10);
    std::snprintf(cuda_text, sizeof cuda_text, "%d.%d", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    std::snprintf(nccl_text, sizeof nccl_text, "%d.%d.%d", nccl / 10000, nccl / 100 % 100, nccl % 100);
    return {{"driver", driver_text}, {"cuda", cuda_text}, {"cudnn", Cudnn::version()}, {"nccl", nccl_text}};
}

Texts of_file(const std::string& run) {
    Texts versions;
    for (const auto& [name, text] : read_metrics(run + "/metrics.h5").run)
        if (name.starts_with("version_")) versions[name.substr(8)] = text;
    return versions;
}

void expect_libraries(const Texts& recorded, const Texts& said) {
    for (const char* library : {"cuda", "cudnn", "nccl"}) EXPECT_EQ(recorded.at(library), said.at(library)) << library;
    EXPECT_TRUE(recorded.at("driver").ends_with("CUDA up to " + said.at("driver"))) << recorded.at("driver");
    EXPECT_TRUE(recorded.contains("mpi") && recorded.contains("hdf5"));
}

class CudaVersions : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
        make_data(dir_.path("data"), 8, 4, "28x28x1", 1);
    }
    Texts of_training(const std::string& device) {
        EXPECT_EQ("",
                  failure(launch(1, "train --model mnist-linear --batch-size 4 --max-steps 1 --data " +
                                        dir_.path("data") + " --device " + device + " --output " + dir_.path(device))));
        return of_file(dir_.path(device));
    }
    /// Returns the content of the last line and of the file, which are the same.
    Texts of_bench(const std::string& device) {
        const std::string output = dir_.path("bench-" + device);
        const Finished f =
            launch(1, "bench --model mnist-linear --batch-per-rank 4 --steps 2 --warmup 2 --profile-steps 0 --device " +
                          device + " --output " + output);
        EXPECT_EQ("", failure(f));
        const std::string text = f.out.substr(0, f.out.find_last_not_of('\n') + 1);
        const Texts printed = nlohmann::json::parse(text.substr(text.rfind('\n') + 1)).at("versions");
        EXPECT_EQ(printed, of_file(output));
        return printed;
    }
    TempDir dir_;
};

TEST_F(CudaVersions, AreRecordedByARunOnAGpu) {
    expect_libraries(of_training("cuda"), said_by_libraries());
    expect_libraries(of_bench("cuda"), said_by_libraries());
}

TEST_F(CudaVersions, ARunOnTheCpuHasNone) {
    for (const Texts& recorded : {of_training("cpu"), of_bench("cpu")}) {
        EXPECT_TRUE(recorded.contains("onednn"));
        for (const char* library : {"driver", "cuda", "cudnn", "nccl", "kernels"})
            EXPECT_FALSE(recorded.contains(library)) << library;
    }
}

}  // namespace
}  // namespace convoy::test
