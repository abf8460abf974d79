// convoy predict: runs, benchmarks and tables that it is fitted to.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "tests/runs/predict.h"

namespace convoy::test {
namespace {

class PredictInputs : public PredictTest {};

TEST_F(PredictInputs, ReadsRunsAndBenchmarks) {
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

TEST_F(PredictInputs, TakesWhatABenchmarkSaysOfItself) {
    const auto bench = [&](const std::string& name, const std::string& more) {
        write_file(path(name),
                   R"({"bench": "resnet18", "hosts": 1, "ranks": 1, "batch_per_rank": 32, "step_seconds": 0.1, )" +
                       more + "}\n");
        return path(name);
    };
    const std::string ask = "--model resnet18 --batch-per-rank 32 --ranks 1 ",
                      small = bench("small.json", R"("precision": "bf16", "image_size": "32x32x3", "classes": 10)");
    const Json j = cells(ask + small);
    EXPECT_EQ(j[0]["image_size"], "32x32x3");
    EXPECT_EQ(j[0]["precision"], "bf16");
    EXPECT_EQ(j[0]["classes"], 10);
    EXPECT_EQ("", refusal(predict(ask + small + " --precision f32"), Exit::usage, {"small.json", "bf16", "f32"}));
    EXPECT_EQ("", refusal(predict(ask + small + " --image-size 64x64x3"), Exit::usage, {"small.json", "32x32x3"}));
    EXPECT_EQ("", refusal(predict(ask + small + " " + bench("f32.json", R"("precision": "f32")")), Exit::usage,
                          {"f32.json", "bf16"}));
    for (const char* images : {R"("image_size": "abc")", R"("image_size": "-5x3x3")", R"("image_size": "9x9x3x")",
                               R"("image_size": "2000000000x9x3")", R"("classes": -3)", R"("classes": 99999999999)"})
        EXPECT_EQ("", refusal(predict(ask + bench("odd.json", images)), Exit::bad_input, {"odd.json", "impossible"}))
            << images;
    // 64 + 2^32 would become 64 in 32 bits
    for (const char* count : {"2147483647", "4294967360", "16777217", "0", "1.5", "-1", "1e9"}) {
        write_file(path("many.json"), formatted(R"({"bench": "resnet18", "hosts": %s, "ranks": %s, )"
                                                R"("batch_per_rank": 32, "step_seconds": 0.1})",
                                                count, count));
        EXPECT_EQ("", refusal(predict(ask + path("many.json")), Exit::bad_input, {"many.json", "hosts with equally"}))
            << count;
    }
    // torchvision's resnet18 has 11,689,512 parameters with 1,000 classes and 11,181,642 with ten;
    // a CIFAR stem has 7,680 fewer
    EXPECT_NE(predict(ask + small).out.find("42.6 MiB"), std::string::npos);
    EXPECT_NE(predict(ask + "--step 1ms").out.find("44.6 MiB"), std::string::npos);
    EXPECT_NE(predict(ask + "--step 1ms --gradient-bytes 2").out.find("22.3 MiB"), std::string::npos);
}

TEST_F(PredictInputs, TablesAreReadAsSpreadsheetsWriteThem) {
    write_file(path("t.csv"),
               "\xef\xbb\xbfnodes, gpus, batch_per_gpu, images_per_s, precision\r\n1, 1, 64.0, 640, f16\r\n");
    const Json j = cells("--model resnet50 --batch-per-rank 64 --ranks 1 " + path("t.csv"));
    EXPECT_NEAR(j[0]["step_seconds"].get<double>(), 0.1, 1e-12);
    EXPECT_EQ(j[0]["precision"], "f16");
}

// Measurements come from other people, too.
TEST_F(PredictInputs, WhatFilesSaySteersNoTerminal) {
    const auto bench = [&](const std::string& precision) {
        const std::string numbers = R"("hosts": 1, "ranks": 1, "batch_per_rank": 64, "step_seconds": 0.1)";
        write_file(path("b.json"), R"({"bench": "resnet50", )" + numbers + R"(, "precision": )" + precision + "}\n");
        return predict("--explain --model resnet50 --batch-per-rank 64 --ranks 1 " + path("b.json"));
    };
    const Finished text = bench(R"("\u001b[31mf16")");
    EXPECT_EQ("", failure(text));
    EXPECT_NE(text.out.find("\\x1b[31mf16"), std::string::npos) << text.out;
    EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    EXPECT_EQ("", refusal(bench(deep), Exit::bad_input, {"b.json", "nested deeply"}));
    write_file(path("t.csv"), "nodes,gpus,batch_per_gpu,images_per_s,precision\n1,1,64,640,f\xff\n");
    EXPECT_EQ(cells("--model resnet50 --batch-per-rank 64 --ranks 1 " + path("t.csv"))[0]["precision"], "f\\xff");
}

// Two ranks of 10 and 14 ms: a mean of 12, and a standard deviation of 2.828.
TEST_F(PredictInputs, TheSpreadIsThatOfTheRanks) {
    const Finished bench = run(launch_command(2,
                                              "bench --model mnist-linear --device cpu --threads 1 --batch-per-rank 8 "
                                              "--steps 10 --warmup 1 --profile-steps 0 --output " +
                                                  path("run")));
    ASSERT_EQ("", failure(bench));
    const std::string script =
        "import h5py, numpy, sys\n"
        "v = h5py.File(sys.argv[1])['rank_epochs/compute_seconds'][:]\n"
        "print(numpy.std(v, ddof=1) / numpy.mean(v))\n";
    write_file(path("spread.py"), script);
    const Finished numpy = run("/usr/bin/python3 " + path("spread.py") + " " + path("run/metrics.h5"));
    ASSERT_EQ("", failure(numpy));
    const Json j = cells("--model mnist-linear --batch-per-rank 8 --ranks 2 " + path("run"));
    const auto at = [&](const char* name) { return j[0][name].get<double>(); };
    const double alone = at("compute_seconds") + at("fixed_seconds") + at("node_loss_seconds");
    EXPECT_NEAR(at("noise_seconds") / alone / 0.5894557, std::stod(numpy.out), 1e-6);  // Blom's value for two
}

TEST_F(PredictInputs, RefusesTablesThatAreNone) {
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
    const std::string kinds = "nodes,gpus,batch_per_gpu,images_per_s,precision,source\n1,1,64,100,f32,mine\n";
    refuses(kinds + "1,1,64,100,f16,mine\n", {"t.csv:3", "f16", "f32"});
    refuses(kinds + "1,1,64,100,f32,predicted\n", {"t.csv:3", "prediction"});
    refuses(head + "1,1,64.5,100\n", {"t.csv:2", "whole"});
    std::string rows;
    for (int i = 0; i < 1001; ++i) rows += "1,1,64,100\n";
    refuses(head + rows, {"t.csv:1002", "row 1001"});
    for (const char* name : {"pipe.csv", "pipe.json"}) {
        ASSERT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
        const Finished f = run(with_limit(command("--model resnet50 --batch-per-rank 64 " + path(name)), 10));
        EXPECT_EQ("", refusal(f, Exit::bad_input, {name, "not a regular file"}));
    }
    write_file(path("t.json"), "{}\n");
    EXPECT_EQ("", refusal(predict("--model resnet50 --batch-per-rank 64 " + path("t.json")), Exit::bad_input,
                          {"t.json", "convoy bench"}));
}

// NGC MXNet's published figures (DLPerf, f32, batch 128, V100): the row of 32 GPUs is left out.
TEST_F(PredictInputs, APublishedRunIsMetFromSmallerOnes) {
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
    EXPECT_NEAR(rate(0), 392.24, 0.01);  // these three are the ones it was fitted to
    EXPECT_NEAR(rate(1), 3006.98, 0.1);
    EXPECT_NEAR(rate(2), 5758.49, 0.1);
    EXPECT_NEAR(rate(3), 11331.93, 0.04 * 11331.93);  // the bound of `make validate-predict` for f32
    EXPECT_EQ(j[3]["known"], "network measured");
}

}  // namespace
}  // namespace convoy::test
