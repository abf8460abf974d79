// --virtual-ranks over models, precisions, numbers of ranks and threads: all data sets in
// metrics.h5 and model.h5, by the files' own lists, have the same bytes, except those about time
// and ranks.
#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "data/hdf5.h"
#include "tests/ops/op_harness.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

using Bytes = std::vector<char>;

herr_t add_name(hid_t, const char* name, const H5L_info_t*, void* names) {
    static_cast<std::vector<std::string>*>(names)->push_back(name);
    return 0;
}

bool denied(const std::string& name, const std::vector<const char*>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const char* pattern) { return fnmatch(pattern, name.c_str(), 0) == 0; });
}

/// Returns the data sets of a file by name, without the content of those that match a pattern.
/// Every pattern must match one.
std::map<std::string, Bytes> datasets(const std::string& path, const std::vector<const char*>& patterns) {
    const h5::Handle file = h5::open(path);
    std::vector<std::string> names;
    H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, add_name, &names);
    std::map<std::string, Bytes> all;
    for (const std::string& name : names) {
        const h5::Handle object(H5Oopen(file, name.c_str(), H5P_DEFAULT));
        if (H5Iget_type(object) != H5I_DATASET) continue;
        Bytes& bytes = all[name];
        if (denied(name, patterns)) continue;
        const h5::Handle type(H5Dget_type(object)), space(H5Dget_space(object));
        EXPECT_FALSE(H5Tis_variable_str(type)) << name;
        bytes.resize(size_t(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
        EXPECT_FALSE(bytes.empty()) << name << " holds nothing to compare";
        EXPECT_GE(H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0) << name;
    }
    for (const char* pattern : patterns) {
        const auto fits = [&](const auto& dataset) { return fnmatch(pattern, dataset.first.c_str(), 0) == 0; };
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), fits)) << "nothing is named " << pattern;
    }
    return all;
}

/// Patterns of data sets about time, and about each rank's work.
const std::vector<const char*> of_time_and_ranks = {
    "*_seconds", "*/seconds", "epochs/images_per_second", "events/*", "ranks/*", "rank_epochs/*", "system/*",
};

class VirtualRanksMatrix : public ResumeTest {
protected:
    VirtualRanksMatrix() { make_data(dir_.path("small"), 34, 26, "16x16x3", 2); }
    /// Returns options for a model and its number of logical ranks; small, so that it trains in
    /// seconds.
    Options model(const std::string& name) const {
        Options options = {{"model", name},       {"epochs", "0.04"},        {"batch-size", "24"},   {"crop-pad", "1"},
                           {"eval-images", "26"}, {"checkpoint-every", "2"}, {"virtual-ranks", "12"}};
        if (name != "mnist-conv") options["data"] = "input/cifar10-sample";
        if (name == "resnet18") options["stem"] = "cifar";
        if (name == "pyramidnet110") {  // the slowest model: three steps, with zero to two images per logical rank
            options["data"] = dir_.path("small");
            options["batch-size"] = "12";
            options["epochs"] = "1";
        }
        if (name == "airbench94") options.insert({{"optimizer", "muon"}, {"look-ahead", "2"}, {"tta", "mirror"}});
        return options;
    }
    void run(int ranks, const std::string& name, const Options& options) {
        ASSERT_EQ("", failure(launch(ranks, train(name, options), 300))) << name;
    }
    void expect_same_files(const std::string& a, const std::string& b, const std::vector<const char*>& patterns) {
        for (const auto& [file, deny] : {std::pair{"metrics.h5", patterns}, {"model.h5", {}}}) {
            const auto one = datasets(dir_.path(a) + "/" + file, deny),
                       other = datasets(dir_.path(b) + "/" + file, deny);
            ASSERT_GT(one.size(), 3u) << file;
            ASSERT_EQ(one.size(), other.size()) << file;
            for (const auto& [name, bytes] : one) {
                ASSERT_TRUE(other.contains(name)) << name;
                EXPECT_TRUE(bytes == other.at(name)) << name << " of " << a << " and " << b;
            }
        }
    }
    /// Returns the number of steps in the file that grows while a run trains.
    int rows(const std::string& run) const {
        std::ifstream lines(dir_.path(run) + "/metrics.jsonl");
        int count = 0;
        for (std::string line; std::getline(lines, line);) count += line.find("\"train\"") != std::string::npos;
        return count;
    }
    /// Trains on each number of ranks: the first one with two threads, the next one with one, and
    /// so on.
    void expect_same_on(const std::vector<int>& ranks, Options options) {
        for (size_t i = 0; i < ranks.size(); ++i) {
            options["threads"] = i % 2 == 0 ? "2" : "1";
            run(ranks[i], "on-" + std::to_string(ranks[i]), options);
            if (HasFatalFailure()) return;
        }
        for (const int other : ranks) {
            if (other != ranks[0]) {
                expect_same_files("on-" + std::to_string(ranks[0]), "on-" + std::to_string(other), of_time_and_ranks);
            }
        }
        EXPECT_GE(column(dir_.path("on-" + std::to_string(ranks[0])), "train/loss").size(), 3u);
    }
};

/// A model in a precision.
struct Trained {
    const char *model, *precision;
};
void PrintTo(const Trained& t, std::ostream* stream) { *stream << t.model << " " << t.precision; }

class VirtualRanksMatrixOf : public VirtualRanksMatrix, public testing::WithParamInterface<Trained> {
protected:
    void SetUp() override {
        if (GetParam().precision == std::string("bf16") && !has_bf16()) GTEST_SKIP() << "CPUs need AVX-512 for bf16";
    }
    Options as(const char* logical_ranks) const {
        Options options = model(GetParam().model);
        options["precision"] = GetParam().precision;
        options["virtual-ranks"] = logical_ranks;
        return options;
    }
};

TEST_P(VirtualRanksMatrixOf, TwelveAreTheSameBits) { expect_same_on({1, 2, 3, 4, 5}, as("12")); }
TEST_P(VirtualRanksMatrixOf, EightAreTheSameBits) { expect_same_on({1, 2, 4, 8}, as("8")); }

INSTANTIATE_TEST_SUITE_P(All, VirtualRanksMatrixOf,
                         testing::Values(Trained{"mnist-conv", "f32"}, Trained{"mnist-conv", "bf16"},
                                         Trained{"resnet18", "f32"}, Trained{"resnet18", "bf16"},
                                         Trained{"airbench94", "f32"}, Trained{"airbench94", "bf16"},
                                         Trained{"pyramidnet110", "f32"}, Trained{"pyramidnet110", "bf16"}),
                         [](const auto& test) {
                             std::string name = test.param.model + std::string("_") + test.param.precision;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// The run is killed ten times at random moments, each time on a random number of ranks. The first
// kill may precede any checkpoint, so that the next run starts over.
TEST_F(VirtualRanksMatrix, GoOnAfterTenKillsBitForBit) {
    const Options options = {
        {"virtual-ranks", "8"}, {"data", dir_.path("data")}, {"checkpoint-every", "7"}, {"epochs", "12"}};
    const auto seed = std::random_device()();
    SCOPED_TRACE("random numbers of seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto any = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
    Options whole = options;
    whole["threads"] = "2";
    run(2, "whole", whole);
    for (int kill = 0; kill < 10; ++kill) {
        Options changes = resumed(options);
        changes["threads"] = std::to_string(any(1, 2));
        const int steps = kill == 0 ? 1 : rows("chain") + any(1, 40);
        interrupted(launch_command(any(1, 8), train("chain", changes), 120), "chain", steps,
                    signal_to_the_newest_rank("chain", "KILL"));
        ASSERT_FALSE(fs::exists(dir_.path("chain") + "/model.h5")) << "nothing was interrupted by kill " << kill;
        if (rows("chain") > 21) {  // no third checkpoint begins before the first is written
            EXPECT_FALSE(checkpoints("chain").empty()) << "nothing to go on from after kill " << kill;
        }
    }
    EXPECT_FALSE(checkpoints("chain").empty()) << "nothing to go on from after ten kills";
    run(3, "chain", resumed(options));
    // a row of an epoch covers the images since the last start
    std::vector<const char*> patterns = of_time_and_ranks;
    for (const char* name : {"epochs/images", "epochs/loss", "epochs/accuracy", "epochs/top5_accuracy"})
        patterns.push_back(name);
    expect_same_files("whole", "chain", patterns);
    EXPECT_EQ(column(dir_.path("whole"), "train/step").size(), 1200u);
}

}  // namespace
}  // namespace convoy::test
