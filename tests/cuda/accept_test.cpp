// convoy accept on several emulated devices: sound ones pass the levels inventory, sums and bits;
// one that computes wrong or slowly is named.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class CudaAccept : public testing::Test {
protected:
    void SetUp() override {
        if (!is_emulated()) GTEST_SKIP() << "this needs the emulated device";
    }
    /// Runs accept on `devices` ranks with a device each. The last one has `variable` set.
    nlohmann::json accept(int devices, const std::string& options, const std::string& variable,
                          const std::string& of_all = "") {
        const std::string folder = dir_.path("accept" + std::to_string(runs_++));
        const auto ranks = [&](int n, const std::string& set) {
            return "-np " + std::to_string(n) + " -x EMULATED_GPUS=" + std::to_string(devices) +
                   " -x XDG_CACHE_HOME=" + dir_.path() + of_all + set + " " + sibling("convoy") +
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

// Only the time of plans counts: EMULATED_MOST_THREADS leaves out what they compute.
TEST_F(CudaAccept, ASlowDeviceIsNamed) {
    for (const int devices : {2, 4}) {
        const nlohmann::json result =
            accept(devices, "--only inventory,speed", "EMULATED_RUN_SECONDS=0.02", " -x EMULATED_MOST_THREADS=1e5");
        const nlohmann::json speed = level_of(result, "speed");
        EXPECT_EQ(speed["outcome"], devices == 2 ? "WARN" : "FAIL") << result;
        EXPECT_EQ(blamed(speed), Devices({"rank " + std::to_string(devices - 1)})) << result;
        EXPECT_EQ(last_.code, int(devices == 2 ? Exit::done : Exit::not_accepted)) << last_.out << last_.err;
    }
}

}  // namespace
}  // namespace convoy::test
