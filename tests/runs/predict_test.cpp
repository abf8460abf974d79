// convoy predict as called by users: input, output and refusals. tests/unit tests its formulas,
// `make validate-predict` its errors on published runs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runs/predict.h"

namespace convoy::test {
namespace {

class Predict : public PredictTest {};

/// A batch of 64 takes 40 ms, one of 128 takes 70: 10 ms plus 0.46875 ms per image.
constexpr const char* two_steps = "--model resnet50 --step 64:40ms,128:70ms ";

TEST_F(Predict, OneRankTakesTheStepThatWasGiven) {
    for (const auto& [batch, seconds] : {std::pair{64, 0.040}, {128, 0.070}, {256, 0.130}}) {
        const Json j = cells(two_steps + ("--batch-per-rank " + std::to_string(batch)) + " --ranks 1");
        ASSERT_EQ(j.size(), 1u);
        EXPECT_NEAR(j[0]["step_seconds"].get<double>(), seconds, 1e-9) << batch;
        EXPECT_NEAR(j[0]["fixed_seconds"].get<double>(), 0.010, 1e-9) << batch;
        EXPECT_NEAR(j[0]["samples_per_second"].get<double>(), batch / seconds, 1e-6) << batch;
        EXPECT_EQ(j[0]["error_p90"].is_null(), batch != 256) << batch;
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
                    at("compute_seconds") + at("fixed_seconds") + at("node_loss_seconds") + at("interference_seconds") +
                        at("noise_seconds") + at("comm_exposed_seconds"),
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

// h of a node of 8 is 0.06 if it was not measured: fewer ranks than 8 lose less.
TEST_F(Predict, AStepOfAFullNodeHasItsLoss) {
    write_file(cluster(), std::string(fast_cluster) + "step = resnet50 f16 0 500 8\n");
    const Json j = cells("--model resnet50 --batch-per-rank 100 --ranks 1,8");
    EXPECT_NEAR(j[0]["compute_seconds"].get<double>(), 0.05 / 1.06, 1e-9);
    EXPECT_NEAR(j[1]["compute_seconds"].get<double>() + j[1]["node_loss_seconds"].get<double>(), 0.05, 1e-9);
    EXPECT_EQ(j[0]["speed_up"], 1);
    EXPECT_EQ(j[0]["known"], "one node");
    EXPECT_EQ(j[1]["known"], "step given");
    EXPECT_LE(j[0]["samples_per_second_low"].get<double>(), j[0]["samples_per_second"].get<double>());
    EXPECT_GE(j[0]["samples_per_second_high"].get<double>(), j[0]["samples_per_second"].get<double>());
}

TEST_F(Predict, OptionsReachTheModel) {
    write_file(cluster(), std::string(fast_cluster) + "step = resnet50 f16 0 500\nstep = resnet50 f32 0 900\n");
    const std::string ask = "--model resnet50 --batch-per-rank 64 ";
    EXPECT_EQ(cells(ask + "--ranks 1")[0]["precision"], "f16");  // the first one
    EXPECT_NEAR(cells(ask + "--ranks 1 --precision f32")[0]["step_seconds"].get<double>(), 64 * 900e-6, 1e-9);
    EXPECT_NEAR(cells(ask + "--ranks 1 --step 2000us")[0]["step_seconds"].get<double>(), 2e-3, 1e-12);
    EXPECT_EQ(cells(ask + "--ranks 65536")[0]["ranks"], 65536);
    const Json all = cells(ask);
    EXPECT_EQ(all[all.size() - 1]["ranks"], 32);
    EXPECT_NE(predict(ask + "--step 1ms --ranks 2 --explain --bucket-mib 1").out.find("bucket of 1.0 MiB"),
              std::string::npos);
    write_file(cluster(), "nodes = 3\ngpus-per-node = 8\nnode-bandwidth = 1\nadapters = 1\nadapter-bandwidth = 1\n");
    const Json three = cells(ask + "--step 1ms");
    EXPECT_EQ(three[three.size() - 1]["ranks"], 24);
    const double four = cells(ask + "--step 1ms --ranks 8")[0]["sums_seconds"],
                 two = cells(ask + "--step 1ms --ranks 8 --gradient-bytes 2")[0]["sums_seconds"];
    EXPECT_NEAR(two / four, 0.5, 0.02);  // everything but the latency, at 1 GB/s
}

TEST_F(Predict, SaysWhatItKnows) {
    const std::string ask = "--model resnet50 --batch-per-rank 64 ";
    const auto known = [&](const std::string& options) { return cells(ask + options)[0]["known"]; };
    EXPECT_EQ(known("--step 31ms --ranks 1"), "step given");
    EXPECT_EQ(known("--step 128:31ms --ranks 1"), "not validated");  // proportional to the batch
    EXPECT_EQ(known("--step 32:8ms,256:60ms --ranks 1"), "one node");
    EXPECT_EQ(known("--step 128:31ms,256:60ms --ranks 1"), "batch beyond those measured");
    EXPECT_EQ(known("--step 16:4ms,32:8ms --ranks 1"), "batch beyond those measured");
    EXPECT_EQ(known("--step 128:31ms,256:60ms --ranks 16"), "network not measured");  // its error is larger
    EXPECT_NE(predict(ask + "--step 128:31ms,256:60ms")
                  .out.find("batch 64 lies beyond those that were measured (128 to 256)"),
              std::string::npos);
    EXPECT_EQ(predict(ask + "--step 32:8ms,256:60ms").out.find("lies beyond"), std::string::npos);
    write_file(path("two.csv"), "nodes,ranks,batch_per_rank,images_per_s\n2,16,64,9000\n");
    EXPECT_EQ(known(path("two.csv") + " --ranks 16"), "step given");
    EXPECT_EQ(known(path("two.csv") + " --ranks 8"), "one node");
    EXPECT_EQ(known(path("two.csv") + " --ranks 32"), "network measured");
    write_file(path("far.csv"), "nodes,ranks,batch_per_rank,images_per_s\n1,8,256,9000\n2,16,128,9000\n");
    EXPECT_EQ(known(path("far.csv") + " --ranks 32"), "batch beyond those measured");
    write_file(path("sums.json"), R"({"all_reduce": {"ranks": 8, "hosts": 1, "ranks_per_host": 8, "sizes": [)"
                                  R"({"bytes": 4, "seconds": 1e-5}, {"bytes": 1073741824, "seconds": 1e-2}]}})");
    write_file(cluster(), std::string(fast_cluster) + "step = resnet18 f16 0 500\nall-reduce-table = sums.json\n");
    EXPECT_EQ(known("--step 31ms --ranks 16"), "network not measured");
    EXPECT_EQ(known("--ranks 16"), "not validated");  // from multiply-adds
    EXPECT_TRUE(cells(ask + "--ranks 16")[0]["error_p90"].is_null());
}

TEST_F(Predict, LikelyIsWithinItsRangeOnAllShippedMachines) {
    for (const char* name : {"a100x4-hdr", "dgx-a100", "dgx-h100", "dgx1-v100-edr", "ethernet-25g", "workstation-pcie"})
        for (const char* model : {"resnet50", "resnet18 --image-size 32x32x3 --classes 10", "mnist-linear"}) {
            const Finished f =
                run(sibling("convoy") + " predict --format json --batch-per-rank 64 --cluster jobs/site/" + name +
                    ".cluster --model " + model);
            ASSERT_EQ("", failure(f)) << name;
            for (const Json& cell : Json::parse(f.out)) {
                const auto at = [&](const char* key) { return cell[key].get<double>(); };
                EXPECT_LE(at("samples_per_second_low"), at("samples_per_second") * (1 + 1e-12)) << cell;
                EXPECT_GE(at("samples_per_second_high"), at("samples_per_second") * (1 - 1e-12)) << cell;
                EXPECT_GT(at("samples_per_second_low"), 0) << cell;
            }
        }
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
    write_file(path("alone.cluster"), "nodes = 1\ngpus-per-node = 4\nnode-bandwidth = 10\n");
    EXPECT_EQ("", refusal(run(sibling("convoy") + " predict --cluster " + path("alone.cluster") + " " + ask +
                              "--step 1ms --ranks 8"),
                          Exit::usage, {"alone", "2 nodes", "adapters"}));
    for (const char* ranks : {"0", "1..", "..8", "8..4", "a", "1,,2", "9999999"})
        refuses(ask + "--step 1ms --ranks " + ranks, Exit::usage, {"--ranks"});
    for (const char* step : {"0", "-1ms", "1min", "64:", "0:1ms", "nan", "64:1ms,x"})
        refuses(ask + "--step=" + step, Exit::usage, {"--step", "64:31ms"});
    refuses(ask + "--step 1ms --from x.csv", Exit::usage, {"--step", "--from"});
    refuses(ask + "--step 1ms --explain --format json", Exit::usage, {"--explain"});
    refuses(ask + "--step 1ms --plot " + path("none/x.png"), Exit::io, {"--plot", "none"});
    refuses(ask + "--step 1ms --precision f99", Exit::usage, {"f99", "bf16"});
    refuses(ask + "--from " + path("none.csv"), Exit::bad_input, {"none.csv"});
    refuses(ask + "--from " + path("none.json"), Exit::bad_input, {"none.json"});
    refuses(ask + "--from " + path("none"), Exit::bad_input, {"none"});
}

}  // namespace
}  // namespace convoy::test
