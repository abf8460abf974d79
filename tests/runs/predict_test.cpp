// convoy predict, as a user calls it: what it reads, prints and refuses. Its formulas are tested in
// tests/unit, its errors on published runs by `make validate-predict`.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/cluster.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using Json = nlohmann::json;

/// Four nodes of eight GPUs, and networks so fast that sums take their latencies alone.
constexpr const char* fast_cluster =
    "nodes = 4\ngpus-per-node = 8\ngpu = ampere\nlink = nvlink\nnode-bandwidth = 100000\n"
    "adapters = 8\nadapter-bandwidth = 100000\ncpu = intel\n";

class Predict : public ::testing::Test {
protected:
    Predict() { write_file(cluster(), fast_cluster); }
    std::string cluster() const { return dir_.path("fast.cluster"); }
    std::string path(const std::string& name) const { return dir_.path(name); }
    std::string command(const std::string& options) const {
        return sibling("convoy") + " predict --cluster " + cluster() + " " + options;
    }
    Finished predict(const std::string& options) const { return run(command(options)); }
    /// The cells of --format json.
    Json cells(const std::string& options) const {
        const Finished f = predict("--format json " + options);
        EXPECT_EQ("", failure(f));
        return Json::parse(f.out, nullptr, false);
    }

private:
    TempDir dir_;
};

/// A batch of 64 takes 40 ms, one of 128 takes 70: 10 ms and 0.46875 ms an image.
constexpr const char* two_steps = "--model resnet50 --step 64:40ms,128:70ms ";

TEST_F(Predict, OneRankTakesTheStepThatWasGiven) {
    for (const auto& [batch, seconds] : {std::pair{64, 0.040}, {128, 0.070}, {256, 0.130}}) {
        const Json j = cells(two_steps + ("--batch-per-rank " + std::to_string(batch)) + " --ranks 1");
        ASSERT_EQ(j.size(), 1u);
        EXPECT_NEAR(j[0]["step_seconds"].get<double>(), seconds, 1e-9) << batch;
        EXPECT_NEAR(j[0]["fixed_seconds"].get<double>(), 0.010, 1e-9) << batch;
        EXPECT_NEAR(j[0]["samples_per_second"].get<double>(), batch / seconds, 1e-6) << batch;
        EXPECT_TRUE(j[0]["error_p90"].is_null());
    }
}

TEST_F(Predict, RowsOfATableAgreeWithOneAnother) {
    const Json j = cells(std::string(two_steps) + "--batch-per-rank 64 --ranks 1..32");
    const std::vector<std::pair<int, int>> places = {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 16}, {4, 32}};
    ASSERT_EQ(j.size(), places.size());
    for (size_t i = 0; i < places.size(); ++i) {
        const auto at = [&](const char* name) { return j[i][name].get<double>(); };
        EXPECT_EQ(at("nodes"), places[i].first);
        EXPECT_EQ(at("ranks"), places[i].second);
        EXPECT_NEAR(at("samples_per_second") * at("step_seconds"), 64 * at("ranks"), 1e-6);
        EXPECT_NEAR(at("speed_up"), at("samples_per_second") / 1600, 1e-9);
        EXPECT_NEAR(at("efficiency"), at("speed_up") / at("ranks"), 1e-12);
        EXPECT_LE(at("samples_per_second_low"), at("samples_per_second"));
        EXPECT_GE(at("samples_per_second_high"), at("samples_per_second"));
        EXPECT_NEAR(at("step_seconds"),
                    at("compute_seconds") + at("fixed_seconds") + at("interference_seconds") + at("noise_seconds") +
                        at("comm_exposed_seconds"),
                    1e-12);
    }
    EXPECT_EQ(j[3]["known"], "one node");
    EXPECT_EQ(j[4]["known"], "network not measured");
    EXPECT_GT(j[4]["error_p90"].get<double>(), j[3]["error_p90"].get<double>());
}

TEST_F(Predict, CsvHasTheSameColumnsAsJson) {
    const std::string options = std::string(two_steps) + "--batch-per-rank 64 --ranks 2,16";
    const Finished json = predict("--format json " + options), f = predict("--format csv " + options);
    EXPECT_EQ("", failure(json));
    EXPECT_EQ("", failure(f));
    const std::string script =
        "import csv, json, sys\n"
        "rows = list(csv.DictReader(open(sys.argv[1])))\n"
        "cells = json.load(open(sys.argv[2]))\n"
        "assert len(rows) == len(cells) == 2\n"
        "for row, cell in zip(rows, cells):\n"
        "    assert list(row) == list(cell)\n"
        "    assert float(row['step_seconds']) == cell['step_seconds']\n"
        "    assert row['limit'] == cell['limit'] and int(row['ranks']) == cell['ranks']\n";
    write_file(path("check.py"), script);
    write_file(path("table.csv"), f.out);
    write_file(path("table.json"), json.out);
    EXPECT_EQ("", failure(run("python3 " + path("check.py") + " " + path("table.csv") + " " + path("table.json"))));
}

// NGC MXNet's published figures (DLPerf, f32, batch 128, V100): the row of 32 GPUs is left out.
TEST_F(Predict, APublishedRunIsMetFromSmallerOnes) {
    write_file(path("v100.cluster"),
               "nodes = 4\ngpus-per-node = 8\ngpu = volta\nlink = nvlink\nnode-bandwidth = 135\nadapters = 1\n"
               "adapter-bandwidth = 11\ncpu = intel\n");
    write_file(path("rows.csv"),
               "# DLPerf\nframework,batch_per_gpu,nodes,gpus,images_per_s\nMXNet,128,1,1,392.24\n\n"
               "MXNet,128,1,8,3006.98\n\"NGC, MXNet\",128,2,16,5758.49\n");
    const Finished f =
        run(sibling("convoy") + " predict --format json --model resnet50 --batch-per-rank 128 --cluster " +
            path("v100.cluster") + " --from " + path("rows.csv") + " --ranks 1,8,16,32");
    ASSERT_EQ("", failure(f));
    const Json j = Json::parse(f.out);
    const auto rate = [&](size_t i) { return j[i]["samples_per_second"].get<double>(); };
    EXPECT_NEAR(rate(0), 392.24, 0.01);  // these three are what it was fitted to
    EXPECT_NEAR(rate(1), 3006.98, 0.1);
    EXPECT_NEAR(rate(2), 5758.49, 0.1);
    EXPECT_NEAR(rate(3), 11331.93, 0.04 * 11331.93);  // the bound of `make validate-predict` for f32
    EXPECT_EQ(j[3]["known"], "network measured");
}

TEST_F(Predict, AKnownStepIsScaledByMultiplyAdds) {
    write_file(cluster(), std::string(fast_cluster) + "step = resnet50 bf16 2 500\n");
    const Json own = cells("--model resnet50 --batch-per-rank 10 --ranks 1"),
               other = cells("--model resnet18 --batch-per-rank 10 --ranks 1");
    EXPECT_NEAR(own[0]["step_seconds"].get<double>(), 0.007, 1e-9);
    EXPECT_EQ(own[0]["precision"], "bf16");
    EXPECT_EQ(own[0]["efficiency"], 1);
    // torchvision's counts of multiply-adds: 1.814 and 4.089 G
    EXPECT_NEAR(other[0]["step_seconds"].get<double>(), 0.002 + 0.005 * 1.814 / 4.089, 1e-5);
}

// h of a node of 8 is 0.06 where nobody measured it: fewer ranks than 8 take less.
TEST_F(Predict, AStepOfAFullNodeHasItsLoss) {
    write_file(cluster(), std::string(fast_cluster) + "step = resnet50 f16 0 500 8\n");
    const Json j = cells("--model resnet50 --batch-per-rank 100 --ranks 1,8");
    EXPECT_NEAR(j[0]["compute_seconds"].get<double>(), 0.05 * (1 - 0.06), 1e-9);
    EXPECT_NEAR(j[1]["compute_seconds"].get<double>(), 0.05, 1e-9);
    EXPECT_EQ(j[0]["known"], "one node");
    EXPECT_EQ(j[1]["known"], "step given");
    EXPECT_LE(j[0]["samples_per_second_low"].get<double>(), j[0]["samples_per_second"].get<double>());
    EXPECT_GE(j[0]["samples_per_second_high"].get<double>(), j[0]["samples_per_second"].get<double>());
}

TEST_F(Predict, ReadsRunsAndBenchmarks) {
    const std::string bench =
        " bench --model mnist-linear --device cpu --threads 1 --batch-per-rank 32 --steps 20 --warmup 2 "
        "--profile-steps 0 --output " +
        path("run") + " > " + path("bench.json");
    ASSERT_EQ("", failure(run(sibling("convoy") + bench)));
    const std::string text = read_file(path("bench.json"));
    const size_t end = text.find_last_not_of('\n'), begin = text.rfind('\n', end) + 1;
    const double seconds = Json::parse(text.substr(begin))["step_seconds"];
    for (const char* name : {"run", "bench.json", "run/metrics.h5"}) {
        const Json j = cells("--model mnist-linear --batch-per-rank 32 --ranks 1 --from " + path(name));
        EXPECT_NEAR(j[0]["step_seconds"].get<double>(), seconds, 0.02 * seconds) << name;  // medians of the same steps
    }
    EXPECT_EQ("", refusal(predict("--model mnist-conv --batch-per-rank 32 " + path("bench.json")), Exit::bad_input,
                          {"bench.json", "mnist-linear", "mnist-conv"}));
    EXPECT_EQ("", refusal(predict("--model mnist-conv --batch-per-rank 32 " + path("run")), Exit::bad_input,
                          {"run", "mnist-linear", "mnist-conv"}));
}

TEST_F(Predict, ExplainsEveryTerm) {
    const Finished f = predict(std::string(two_steps) + "--batch-per-rank 64 --ranks 8 --explain --bucket-mib 4096");
    EXPECT_EQ("", failure(f));
    for (const char* word :
         {"8 ranks on 1 node", "compute ", "fixed ", "interference ", "slowest rank ", "bucket of 97.5 MiB", "ring"})
        EXPECT_NE(f.out.find(word), std::string::npos) << word;
    EXPECT_EQ(f.out.find("bucket of", f.out.find("bucket of 97.5") + 1), std::string::npos);
}

TEST_F(Predict, StartsNoMpi) {
    const std::string broken = "OMPI_MCA_btl=none OMPI_MCA_pml=none ";
    const std::string ask = std::string(two_steps) + "--batch-per-rank 64";
    EXPECT_NE(run(broken + sibling("convoy") + " report nothing").code, int(Exit::bad_input))
        << "MPI starts all the same";
    EXPECT_EQ("", failure(run(broken + command(ask))));
}

TEST_F(Predict, DrawsAPicture) {
    EXPECT_EQ("", failure(predict(std::string(two_steps) + "--batch-per-rank 64 --plot " + path("picture.png"))));
    EXPECT_TRUE(read_file(path("picture.png")).starts_with("\x89PNG"));
}

TEST_F(Predict, RefusesWhatCannotBe) {
    const std::string ask = "--model resnet50 --batch-per-rank 64 ";
    const auto refuses = [&](const std::string& options, Exit code, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(predict(options), code, words)) << options;
    };
    refuses("--batch-per-rank 64", Exit::usage, {"--model"});
    refuses("--model resnet50", Exit::usage, {"--batch-per-rank"});
    refuses("--model resnet51 --batch-per-rank 64 --step 1ms", Exit::usage, {"resnet51", "resnet50"});
    refuses(ask, Exit::usage, {"--step", "--from", "fast"});
    refuses(ask + "--step 1ms --precision bf16 --ranks 12", Exit::usage, {"12 ranks", "nodes of 8", "8 or 16"});
    for (const char* ranks : {"0", "1..", "..8", "8..4", "a", "1,,2", "9999999"})
        refuses(ask + "--step 1ms --ranks " + ranks, Exit::usage, {"--ranks"});
    for (const char* step : {"0", "-1ms", "1min", "64:", "0:1ms", "nan", "64:1ms,x"})
        refuses(ask + "--step=" + step, Exit::usage, {"--step", "64:31ms"});
    refuses(ask + "--step 1ms --from x.csv", Exit::usage, {"--step", "--from"});
    refuses(ask + "--step 1ms --explain --format json", Exit::usage, {"--explain"});
    refuses(ask + "--from " + path("none.csv"), Exit::bad_input, {"none.csv"});
    refuses(ask + "--from " + path("none.json"), Exit::bad_input, {"none.json"});
    refuses(ask + "--from " + path("none"), Exit::bad_input, {"none"});
}

TEST_F(Predict, RefusesTablesThatAreNone) {
    const auto refuses = [&](const std::string& text, const std::vector<std::string>& words) {
        write_file(path("t.csv"), text);
        EXPECT_EQ("", refusal(predict("--model resnet50 --batch-per-rank 64 " + path("t.csv")), Exit::bad_input, words))
            << text;
    };
    const std::string head = "nodes,gpus,batch_per_gpu,images_per_s\n";
    refuses("", {"t.csv", "no row"});
    refuses(head, {"t.csv", "no row"});
    refuses("nodes,gpus,images_per_s\n1,1,100\n", {"t.csv", "batch_per_gpu"});
    refuses(head + "1,1,64\n", {"t.csv:2", "fewer columns"});
    for (const char* row : {"0,1,64,100", "1,1,64,0", "1,1,64,-5", "1,1,0,100", "2,1,64,100", "2,3,64,100",
                            "1,x,64,100", "1,1,64,OOM", "1,1,64,nan"})
        refuses(head + "1,1,64,100\n" + row + "\n", {"t.csv:3", "above 0"});
    write_file(path("t.json"), "{}\n");
    EXPECT_EQ("", refusal(predict("--model resnet50 --batch-per-rank 64 " + path("t.json")), Exit::bad_input,
                          {"t.json", "convoy bench"}));
}

}  // namespace
}  // namespace convoy::test
