// Shared by tests of faults: a data set that they damage, and refusals on one rank and on two.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/digest.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace fs = std::filesystem;

class FaultsTest : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 60, 20, "28x28x1"); }
    /// Expects that `convoy ARGUMENTS` is refused alike on 1 and on 2 ranks.
    void refused(Exit code, const std::vector<std::string>& words, const std::string& arguments) {
        for (int ranks = 1; ranks <= 2; ++ranks)
            EXPECT_EQ("", refusal(launch(ranks, arguments), code, words)) << ranks << " ranks: " << arguments;
    }
    /// Expects that `convoy train` on data_ into output_ is refused, and leaves no model.
    void train_refused(Exit code, const std::vector<std::string>& words,
                       const std::string& options = "--model mnist-linear --batch-size 20") {
        refused(code, words, "train --data " + data_ + " --output " + output_ + " " + options);
        EXPECT_FALSE(fs::exists(output_ + "/model.h5"));
    }
    /// Makes the manifest agree with the changed files, so that only the damage itself can be
    /// detected.
    void accept_into_manifest() {
        auto json = nlohmann::json::parse(read_file(data_ + "/manifest.json"));
        for (auto& shard : json["shards"]) {
            const std::string path = data_ + "/" + shard["file"].get<std::string>();
            shard["bytes"] = fs::file_size(path);
            shard["sha256"] = digest_of_file(Digest::Kind::sha256, path);
        }
        write_file(data_ + "/manifest.json", json.dump());
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), output_ = dir_.path("run");
    std::string first_ = data_ + "/train-00000-of-00002.h5", second_ = data_ + "/train-00001-of-00002.h5",
                test_ = data_ + "/test-00000-of-00001.h5";
};

}  // namespace convoy::test
