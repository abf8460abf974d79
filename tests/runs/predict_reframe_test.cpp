// convoy predict --as reframe: the references agree with what --format json predicts, and with the
// measured all-reduces that it was given.
#include <gtest/gtest.h>

#include "tests/runs/predict.h"

namespace convoy::test {
namespace {

class PredictReframe : public PredictTest {
protected:
    Json references(const std::string& options) const {
        const Finished f = predict("--as reframe " + options);
        EXPECT_EQ("", failure(f));
        return Json::parse(f.out, nullptr, false);
    }
};

/// A batch of 64 takes 40 ms, one of 128 takes 70.
constexpr const char* two_steps = "--model resnet50 --step 64:40ms,128:70ms --batch-per-rank 64 ";

TEST_F(PredictReframe, ImagesPerSecondAreThoseOfThePrediction) {
    const std::string options = std::string(two_steps) + "--ranks 1,8,16 --precision bf16 ";
    const Json predicted = cells(options), j = references(options + "--system here:gpu");
    ASSERT_EQ(j.size(), 3u);
    for (size_t i = 0; i < j.size(); ++i) {
        EXPECT_EQ(j[i]["system"], "here:gpu");
        EXPECT_EQ(j[i]["device"], "cuda");
        EXPECT_EQ(j[i]["ranks"], predicted[i]["ranks"]);
        EXPECT_EQ(j[i]["ranks_per_node"], i == 0 ? 1 : 8);
        const Json& reference = j[i]["bench"]["reference"];
        EXPECT_EQ(reference[0], predicted[i]["samples_per_second"]);
        EXPECT_EQ(reference[2], nullptr);  // no run is too fast
        EXPECT_EQ(reference[3], "images/s");
    }
    EXPECT_NEAR(j[0]["bench"]["reference"][0].get<double>(), 64 / 0.040, 1e-6);
    EXPECT_EQ(j[0]["bench"]["reference"][1], -0.1);  // this step was given
    for (const int i : {1, 2})
        EXPECT_EQ(j[i]["bench"]["reference"][1].get<double>(), -predicted[i]["error_p90"].get<double>());
    EXPECT_EQ(j[0]["bench"]["options"], Json({"--model", "resnet50", "--batch-per-rank", "64", "--image-size",
                                              "224x224x3", "--classes", "1000", "--precision", "bf16"}));
}

TEST_F(PredictReframe, WhatIsNotValidatedFailsNothing) {
    const Json j = references("--model resnet50 --step 128:70ms --batch-per-rank 64 --ranks 1");
    EXPECT_EQ(j[0]["system"], "*");
    EXPECT_EQ(j[0]["bench"]["reference"][1], nullptr);
}

TEST_F(PredictReframe, OptionsThatThePredictionTookAreTheBenchmarksToo) {
    const Json j = references(std::string(two_steps) + "--ranks 8 --bucket-mib 2.5 --gradient-bytes 2");
    const Json& options = j[0]["bench"]["options"];
    EXPECT_EQ(Json(options.begin() + 8, options.end()), Json({"--bf16-gradients", "--bucket-mib", "2.5"}));
}

// 64 MiB in 4 ms on 8 ranks: bytes / seconds * 2 * 7 / 8.
TEST_F(PredictReframe, MeasuredAllReducesGiveTheBandwidth) {
    write_file(path("sums.json"),
               R"({"all_reduce": {"ranks": 8, "hosts": 1, "ranks_per_host": 8, "device": "x", "transport": "MPI",
                   "sizes": [{"bytes": 67108864, "seconds": 0.004}]}, "version": "1", "commit": "c"})");
    write_file(cluster(), std::string(fast_cluster) + "all-reduce-table = sums.json\n");
    const Json j = references(std::string(two_steps) + "--ranks 1,8");
    EXPECT_EQ(j[0].count("comm-test"), 0u) << "one rank sends nothing";
    const Json& sums = j[1]["comm-test"];
    EXPECT_EQ(sums["options"], Json({"--bytes", "67108864"}));
    EXPECT_NEAR(sums["reference"][0].get<double>(), 67108864 / 0.004 * 2 * 7 / 8 / 1e9, 1e-9);
    EXPECT_EQ(sums["reference"][1], -0.2);
    EXPECT_EQ(sums["reference"][3], "GB/s");
}

// The model of all-reduces is NCCL's.
TEST_F(PredictReframe, NothingIsExpectedOfAllReducesOnCpusThatWereNotMeasured) {
    write_file(path("bench.json"),
               R"({"bench": "mnist-conv", "hosts": 1, "ranks": 1, "batch_per_rank": 64, "step_seconds": 0.01,
                   "precision": "f32", "image_size": "28x28x1", "device_kind": "cpu", "classes": 10})");
    std::string one_line = read_file(path("bench.json"));
    std::erase(one_line, '\n');
    write_file(path("bench.json"), one_line);
    const Json j = references("--model mnist-conv --batch-per-rank 64 --ranks 2 --from " + path("bench.json"));
    EXPECT_EQ(j[0]["device"], "cpu");
    EXPECT_EQ(j[0].count("comm-test"), 0u);
    EXPECT_EQ(j[0]["bench"]["options"], Json({"--model", "mnist-conv", "--batch-per-rank", "64", "--image-size",
                                              "28x28x1", "--classes", "10", "--precision", "f32"}));
}

TEST_F(PredictReframe, RefusesWhatDoesNotGoTogether) {
    const auto refused = [&](const std::string& options, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(predict(two_steps + options), Exit::usage, words));
    };
    refused("--as nagios", {"--as nagios", "reframe"});
    refused("--as reframe --format json", {"--as", "--format"});
    refused("--as reframe --explain", {"--as", "--explain"});
    refused("--system here:gpu", {"--system", "--as reframe"});
}

// JSON would hold another name than the user's, and ReFrame would run nothing.
TEST_F(PredictReframe, RefusesASystemThatIsNoText) {
    const std::string cases[] = {"caf\xe9:gpu", "here\x1b[2J:gpu", "here:gpu\n", "\xed\xa0\x80"};
    for (const std::string& name : cases) {
        const Finished f = predict(two_steps + std::string("--as reframe --system '") + name + "'");
        EXPECT_EQ("", refusal(f, Exit::usage, {"--system", "not UTF-8", "SYSTEM:PARTITION"}));
        EXPECT_EQ(f.out, "");
        EXPECT_EQ(f.err.find('\x1b'), std::string::npos) << f.err;
    }
    EXPECT_EQ(references(std::string(two_steps) + "--ranks 1 --system 'caf\u00e9:gpu'")[0]["system"], "caf\u00e9:gpu");
}

}  // namespace
}  // namespace convoy::test
