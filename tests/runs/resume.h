// Shared by tests of interrupted runs: a training of 400 steps that is interrupted at a given one,
// and the comparison of two runs bit for bit.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace fs = std::filesystem;

class ResumeTest : public testing::Test {
protected:
    ResumeTest() { make_data(dir_.path("data"), 1990, 100, "28x28x1", 2); }

    using Options = std::map<std::string, std::string>;
    /// Returns a `train` command into folder `run`: 100 steps per epoch, 400 in all, the last of
    /// each epoch smaller. `changes` override the defaults.
    std::string train(const std::string& run, const Options& changes = {}) const {
        Options options = {{"data", dir_.path("data")},
                           {"model", "mnist-conv"},
                           {"batch-size", "20"},
                           {"epochs", "4"},
                           {"lr", "0.01"},
                           {"crop-pad", "2"},
                           {"flip", "true"},
                           {"log-interval", "1"},
                           {"checkpoint-every", "30"},
                           {"output", dir_.path(run)}};
        for (const auto& [name, value] : changes) options[name] = value;
        std::string text = "train";
        for (const auto& [name, value] : options) text.append(" --").append(name).append(" ").append(value);
        return text;
    }
    static Options resumed(Options changes = {}) {
        changes["resume"] = "auto";
        return changes;
    }
    std::vector<std::string> checkpoints(const std::string& run) const {
        std::vector<std::string> paths;
        for (const auto& entry : fs::directory_iterator(dir_.path(run) + "/checkpoints")) paths.push_back(entry.path());
        std::sort(paths.begin(), paths.end());
        return paths;
    }
    /// Expects the same bits in losses, evaluations and the trained models of two runs.
    void expect_same(const std::string& a, const std::string& b) {
        for (const char* name :
             {"train/step", "train/loss", "train/accuracy", "eval/step", "eval/loss", "eval/accuracy", "epochs/epoch"})
            EXPECT_EQ(column(dir_.path(a), name), column(dir_.path(b), name)) << name;
        EXPECT_EQ(tensors(dir_.path(a) + "/model.h5"), tensors(dir_.path(b) + "/model.h5"));
    }
    /// Starts `command` for folder `run`, and runs `then` as soon as `steps` steps are in
    /// metrics.jsonl.
    Finished interrupted(const std::string& command, const std::string& run, int steps, const std::string& then) {
        std::ostringstream script;
        script << "(" << command << ") & job=$!\n"
               << "for i in $(seq 1500); do n=$(grep -c '\"train\"' " << dir_.path(run)
               << "/metrics.jsonl 2>/dev/null)\n"
               << "[ \"${n:-0}\" -ge " << steps << " ] && break; sleep 0.02; done\n"
               << then << "\nwait $job";
        return test::run(script.str());
    }

    std::string signal_to_the_newest_rank(const std::string& run, const std::string& signal) const {
        return "pkill -" + signal + " -n -f '^[^ ]*convoy train .*" + dir_.path(run) + "'";
    }

    TempDir dir_;
};

}  // namespace convoy::test
