// Shared by tests of convoy predict: a cluster, and the command's output.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/cluster.h"
#include "tests/support/support.h"

namespace convoy::test {

using Json = nlohmann::json;

/// Four nodes of eight GPUs, with networks so fast that all-reduces take only their latencies.
constexpr const char* fast_cluster =
    "nodes = 4\ngpus-per-node = 8\ngpu = ampere\nlink = nvlink\nnode-bandwidth = 100000\n"
    "adapters = 8\nadapter-bandwidth = 100000\ncpu = intel\n";

class PredictTest : public ::testing::Test {
protected:
    PredictTest() { write_file(cluster(), fast_cluster); }
    std::string cluster() const { return dir_.path("fast.cluster"); }
    std::string path(const std::string& name) const { return dir_.path(name); }
    std::string command(const std::string& options) const {
        return sibling("convoy") + " predict --cluster " + cluster() + " " + options;
    }
    Finished predict(const std::string& options) const { return run(command(options)); }
    /// Returns the cells of --format json.
    Json cells(const std::string& options) const {
        const Finished f = predict("--format json " + options);
        EXPECT_EQ("", failure(f));
        return Json::parse(f.out, nullptr, false);
    }

private:
    TempDir dir_;
};

}  // namespace convoy::test
