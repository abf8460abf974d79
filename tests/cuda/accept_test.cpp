// convoy accept on several emulated devices: sound ones pass the levels inventory, sums and bits;
// one that computes wrong or slowly is named.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "accept/reports.h"
#include "accept/speed.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

class CudaAccept : public testing::Test {
protected:
    void SetUp() override {
        if (!is_emulated()) GTEST_SKIP() << "this needs the emulated device";
    }
    /// Runs accept on `devices` ranks with a device each. The last one has `variable` set.
    nlohmann::json accept(int devices, const std::string& options, const std::string& variable) {
        const std::string folder = dir_.path("accept" + std::to_string(runs_++));
        const auto ranks = [&](int n, const std::string& set) {
            return "-np " + std::to_string(n) + " -x EMULATED_GPUS=" + std::to_string(devices) +
                   " -x XDG_CACHE_HOME=" + dir_.path() + set + " " + sibling("convoy") +
                   " accept --device cuda --level quick --output " + folder + " " + options;
        };
        last_ = mpirun(ranks(devices - 1, "") + " : " + ranks(1, variable.empty() ? "" : " -x " + variable), 580);
        return nlohmann::json::parse(read_file(folder + "/accept.json"));
    }
    static nlohmann::json level_of(const nlohmann::json& result, const std::string& name) {
        for (const nlohmann::json& level : result["levels"])
            if (level["level"] == name) return level;
        return {};
    }
    /// The devices that a level blames.
    static std::vector<std::string> blamed(const nlohmann::json& level) {
        std::vector<std::string> devices;
        for (const nlohmann::json& b : level["blamed"]) devices.push_back(b["device"]);
        return devices;
    }

    Finished last_;

private:
    TempDir dir_;
    int runs_ = 0;
};

using Devices = std::vector<std::string>;

TEST_F(CudaAccept, SoundDevicesPassSumsAndBits) {
    for (const int devices : {2, 4}) {
        const nlohmann::json result = accept(devices, "--only inventory,sums,bits", "");
        EXPECT_EQ("", failure(last_));
        EXPECT_EQ(level_of(result, "sums")["outcome"], "PASS") << result;
        EXPECT_EQ(level_of(result, "bits")["outcome"], "PASS") << result;
        EXPECT_EQ(result["drain"], nlohmann::json::array()) << result;
    }
}

// If two devices differ, nothing says which is wrong.
TEST_F(CudaAccept, ADeviceThatComputesWrongIsNamed) {
    for (const int devices : {2, 4}) {
        const nlohmann::json result = accept(devices, "--only inventory,sums,bits", "EMULATED_WRONG_PLAN=conv");
        EXPECT_EQ(last_.code, int(Exit::not_accepted)) << last_.out << last_.err;
        EXPECT_EQ(level_of(result, "sums")["outcome"], "PASS") << result;
        const nlohmann::json bits = level_of(result, "bits");
        EXPECT_EQ(bits["outcome"], "FAIL") << result;
        EXPECT_EQ(blamed(bits), devices == 2 ? Devices({"rank 0", "rank 1"}) : Devices({"rank 3"})) << result;
    }
}

// The level itself, on small images: the ResNet-50 that `accept` times on GPUs takes the emulated
// device minutes per step. Ranks of one host get a warning (Accept has hosts that fail).
TEST_F(CudaAccept, ASlowDeviceIsNamed) {
    Comm& comm = test_comm();
    if (comm.size() == 1) {
        for (const int devices : {2, 4}) {
            setenv("EMULATED_GPUS", std::to_string(devices).c_str(), 1);
            EXPECT_EQ("", problem_on_ranks(devices)) << devices << " devices";
        }
        unsetenv("EMULATED_GPUS");
        return;
    }
    const int slow = comm.size() - 1;
    if (comm.rank() == slow) setenv("EMULATED_RUN_SECONDS", "0.02", 1);
    const LevelResult speed = speed_level(comm, {.device = "cuda", .gpu = comm.rank()},
                                          {.model = "mnist-conv", .side = 28, .batch = 4, .warmup = 1, .steps = 5});
    EXPECT_EQ(speed.outcome, Outcome::warn) << level_text(speed);
    ASSERT_EQ(speed.blamed.size(), 1u) << level_text(speed);
    EXPECT_EQ(speed.blamed[0].device, "rank " + std::to_string(slow));
    EXPECT_NE(speed.blamed[0].reason.find(" alone"), std::string::npos) << speed.blamed[0].reason;
}

}  // namespace
}  // namespace convoy::test
