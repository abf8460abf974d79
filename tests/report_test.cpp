// convoy report: golden files of every format from small runs that are written here, the arithmetic of the scaling
// table, and what is refused. CONVOY_WRITE_GOLDEN=1 writes the golden files anew; look at them before they are
// committed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "cli/report_summary.h"
#include "cluster.h"
#include "train/metrics.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// A training of two epochs on two ranks, of which the second is slow.
void write_training(const std::string& dir) {
    fs::create_directories(dir);
    Metrics m(dir);
    m.run_attribute("model", std::string("mnist-conv"));
    m.run_attribute("image size", std::string("28x28x1"));
    m.run_attribute("global batch (--batch-size)", std::string("60"));
    m.run_attribute("configuration", std::string("model = mnist-conv\nprecision = f32\n"));
    m.event(0, "start", "convoy train --data a|b");
    for (int r = 0; r < 2; ++r) m.add(RankRow{r, "node" + std::to_string(r), "CPU", 4});
    m.add(TrainRow{1, 1, 2.3, 0.1, 0.1, 5.0, 0.1, 0.1});  // pays for what is done once
    m.add(TrainRow{2, 1, 2.0, 0.3, 0.1, 0.02, 0.001, 0.004});
    m.add(TrainRow{3, 2, 1.5, 0.5, 0.1, 0.03, 0.002, 0.005});
    m.add(TrainRow{4, 2, 1.2, 0.6, 0.1, 0.04, 0.003, 0.006});
    m.add(EpochRow{1, 120, 5.25, 22.9});
    m.add(EpochRow{2, 120, 0.25, 480.0});
    for (int epoch = 1; epoch <= 2; ++epoch) {
        m.add(RankEpochRow{epoch, 0, 0.25, 1.0, 1.5});
        m.add(RankEpochRow{epoch, 1, 0.25, 2.0, 0.5});
    }
    m.add(EvalRow{2, 1, 1.9, 0.75, 0.5});
    m.add(EvalRow{4, 2, 2.1, 0.625, 0.5});
    m.event(4, "done", "test accuracy 0.6250");
    m.publish();
}

/// A benchmark: steps of these seconds, which took `wall` seconds with what lies between them.
struct Cell {
    int ranks, batch;
    std::vector<double> seconds;
    double wall;
    std::string image_size = "224x224x3", stem = "auto", classes = "1000", device_kind = "gpu", model = "resnet50",
                more = "";
};

/// As convoy bench leaves it, on hosts of eight ranks.
void write_bench(const std::string& dir, const Cell& c) {
    fs::create_directories(dir);
    Metrics m(dir);
    m.run_attribute("model", c.model);
    m.run_attribute("image size", c.image_size);
    m.run_attribute("number of classes", c.classes);
    m.run_attribute("device kind", c.device_kind);
    m.run_attribute("global batch (--batch-size)", std::to_string(c.ranks * c.batch));
    m.run_attribute("configuration", "precision = bf16\nstem = " + c.stem + "\n" + c.more);
    m.run_attribute("bench", std::string("{}"));
    for (int r = 0; r < c.ranks; ++r)
        m.add(RankRow{r, "node" + std::to_string(r / 8), c.device_kind == "gpu" ? "GPU" : "CPU", 1});
    for (size_t i = 0; i < c.seconds.size(); ++i) m.add(TrainRow{int64_t(21 + i), 1, 1, 0, 0.1, c.seconds[i], 0, 0});
    const int64_t images = int64_t(c.seconds.size()) * c.ranks * c.batch;
    m.add(EpochRow{1, images, c.wall, double(images) / c.wall});
    m.publish();
}

class Report : public testing::Test {
protected:
    /// In the folder of the runs, so that the report holds no path of this machine.
    Finished report(const std::string& arguments) {
        return run("cd " + dir_.path() + " && " + with_limit(sibling("convoy") + " report " + arguments, 60));
    }
    void expect_golden(const std::string& name, const std::string& arguments) {
        const Finished f = report(arguments);
        ASSERT_EQ("", failure(f)) << arguments;
        EXPECT_EQ(f.err, "") << arguments;
        const std::string said = std::regex_replace(f.out, std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ"),
                                                    "2026-01-31T12:00:00Z"),
                          path = "tests/golden/report/" + name;
        if (std::getenv("CONVOY_WRITE_GOLDEN")) write_file(path, said);
        EXPECT_EQ(said, read_file(path)) << arguments;
    }
    /// 1, 2, 8 and 16 GPUs at batch 128, three repeats of the first; a cell without memory at batch 256, one of each
    /// kind.
    void write_matrix() {
        for (int repeat = 1; repeat <= 3; ++repeat)
            write_bench(dir_.path("m/1n1g-b128-r" + std::to_string(repeat)),
                        {1, 128, {0.4, 0.4, 0.5}, 1.2 * repeat});  // 320, 160, 106.7
        write_bench(dir_.path("m/1n2g-b128-r1"), {2, 128, {0.5}, 0.8});
        write_bench(dir_.path("m/1n8g-b128-r1"), {8, 128, {0.9}, 1.0});
        write_bench(dir_.path("m/2n16g-b128-r1"), {16, 128, {0.9}, 1.0});
        write_bench(dir_.path("m/1n1g-b256-r1"), {1, 256, {0.9}, 1.0});
        fs::create_directories(dir_.path("m/1n2g-b256-r1"));
        write_file(dir_.path("m/1n2g-b256-r1/oom"), "");
        fs::create_directories(dir_.path("m/1n4g-b256-r1"));
        write_file(
            dir_.path("m/1n4g-b256-r1/oom"),
            R"({"model":"resnet50","precision":"bf16","ranks":4,"hosts":1,"batch_per_rank":256,"message":"out of memory: 9 MiB"})");
    }
    TempDir dir_;
};

TEST_F(Report, SummariesAreThoseOfTheGoldenFiles) {
    write_training(dir_.path("slow"));
    write_bench(dir_.path("fast"), {1, 32, {0.1, 0.2, 0.3}, 0.75});
    fs::create_directories(dir_.path("1n2g-b64-r1"));
    write_file(dir_.path("1n2g-b64-r1/oom"), "");
    for (const auto& [format, name] : {std::pair{"text", "summary.txt"},
                                       {"markdown", "summary.md"},
                                       {"csv", "summary.csv"},
                                       {"json", "summary.json"}})
        expect_golden(name, std::string("slow fast/metrics.h5 1n2g-b64-r1/ --format ") + format);
}

TEST_F(Report, ScalingTablesAreThoseOfTheGoldenFiles) {
    write_matrix();
    for (const auto& [format, name] : {std::pair{"text", "scaling.txt"},
                                       {"markdown", "scaling.md"},
                                       {"csv", "scaling.csv"},
                                       {"json", "scaling.json"}})
        expect_golden(name, std::string("--scaling m/* --format ") + format);
}

TEST_F(Report, SummaryOfARun) {
    write_training(dir_.path("run"));
    const RunSummary s = summarise(dir_.path("run"));
    EXPECT_EQ(s.model, "mnist-conv");
    EXPECT_EQ(s.precision, "f32");
    EXPECT_EQ(s.ranks, 2);
    EXPECT_EQ(s.hosts, 2);
    EXPECT_EQ(s.batch_per_rank, 30);
    EXPECT_EQ(s.epochs, 2);
    EXPECT_EQ(s.steps, 4);
    EXPECT_DOUBLE_EQ(s.step_seconds, 0.03) << "without the first";
    EXPECT_EQ(s.images, 240);
    EXPECT_DOUBLE_EQ(s.images_per_second, 240 / 5.5) << "the first step and all gaps included";
    EXPECT_DOUBLE_EQ(s.step_images_per_second, 60 / 0.03);
    EXPECT_DOUBLE_EQ(s.training_seconds, 5.5);
    EXPECT_DOUBLE_EQ(s.epoch_seconds, 2.75);
    EXPECT_DOUBLE_EQ(s.eval_seconds, 1);
    EXPECT_DOUBLE_EQ(s.best_accuracy, 0.75);
    EXPECT_EQ(s.best_epoch, 1);
    EXPECT_DOUBLE_EQ(s.last_accuracy, 0.625);
    ASSERT_EQ(s.of_ranks.size(), 2u);
    EXPECT_DOUBLE_EQ(s.of_ranks[1].compute, 4);
    EXPECT_DOUBLE_EQ(s.of_ranks[0].wait, 3);
    EXPECT_EQ(s.events.size(), 2u);
}

TEST_F(Report, PublishedSpeedUps) {
    const auto published = read_published("output/published-resnet50-v100.csv");
    EXPECT_EQ(published.size(), 24u);
    ScalingRun mine{"Convoy", "resnet50", "f32", "224x224x3", 128, 1, 1, 400};
    mine.device = "gpu";
    std::map<std::string, ScalingCell> at_32;
    for (const ScalingCell& c : scaling_cells({mine}, published))
        if (c.run.ranks == 32) at_32[c.run.source] = c;
    ASSERT_EQ(at_32.size(), 4u);
    EXPECT_NEAR(at_32["PyTorch"].speed_up, 5552.77 / 347.12, 1e-12);
    EXPECT_NE(scaling_as(scaling_cells({mine}, published), Format::text).find("5552.77 (16.0)"), std::string::npos);
    EXPECT_NEAR(at_32["PyTorch"].efficiency, 5552.77 / 347.12 / 32, 1e-12);
    EXPECT_NEAR(at_32["OneFlow"].speed_up, 11548.451 / 383.760, 1e-12);
    mine.precision = "bf16";  // they stand beside it, as what they are
    for (const ScalingCell& c : scaling_cells({mine}, published))
        EXPECT_EQ(c.run.precision, c.run.source == "Convoy" ? "bf16" : "f32");
    mine.batch = 64;  // nothing was published for that
    EXPECT_EQ(scaling_cells({mine}, published).size(), 1u);
    EXPECT_EQ(scaling_cells({mine}, published)[0].note, "");
    mine.batch = 128;
    const auto expect_alone = [&](const ScalingRun& run, const std::string& what) {
        const auto cells = scaling_cells({run}, published);
        EXPECT_EQ(cells.size(), 1u) << what;
        const std::string text = scaling_as(cells, Format::text);
        EXPECT_NE(text.find("not comparable with the published figures, which are of 224x224x3 images, 1,000 classes, "
                            "imagenet stem, on GPUs"),
                  std::string::npos)
            << what << "\n"
            << text;
        for (const char* source : {"PyTorch", "OneFlow"}) EXPECT_EQ(count(text, source), 0) << what;
    };
    ScalingRun other = mine;
    other.image_size = "32x32x3";
    expect_alone(other, "other images");
    (other = mine).classes = 10;
    expect_alone(other, "other classes");
    (other = mine).stem = "cifar";
    expect_alone(other, "another stem");
    (other = mine).device = "cpu";
    expect_alone(other, "ranks on CPUs");
    (other = mine).model = "resnet18";  // of which nothing was published
    EXPECT_EQ(scaling_cells({other}, published).at(0).note, "");
}

// The scaling matrix itself, in one small cell: what it measures is what published figures are of.
TEST_F(Report, TheMatrixMeasuresResnetsOnImagesOfImageNet) {
    const std::string cells = dir_.path("cells");
    const Finished f =
        run(with_limit("env CONVOY_COMMAND=" + sibling("convoy") +
                           " bash -c 'source jobs/common.sh; launch=(env); CELL=1n1g BATCHES=1 REPEATS=1; "
                           "bench_on cpu resnet18 " +
                           cells + " --warmup 0 --steps 1 --profile-steps 0'",
                       120));
    ASSERT_EQ("", failure(f));
    const RunSummary s = summarise(cells + "/1n1g-b1-r1");
    const auto published = read_published("output/published-resnet50-v100.csv");
    EXPECT_EQ(s.image_size, published.at(0).image_size);
    EXPECT_EQ(s.classes, 1000);
    EXPECT_EQ(s.stem, "imagenet");
    EXPECT_EQ(s.device, "cpu");
}

// Images/s of 32x32 and of 224x224 images have no ratio that means anything.
TEST_F(Report, ScalingRefusesMixedSizes) {
    write_bench(dir_.path("a"), {1, 128, {1}, 1});
    write_bench(dir_.path("small"), {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .image_size = "32x32x3"});
    write_bench(dir_.path("ten"), {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .classes = "10"});
    write_bench(dir_.path("stem"), {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .stem = "cifar"});
    write_bench(dir_.path("digits"), {.ranks = 1,
                                      .batch = 128,
                                      .seconds = {1},
                                      .wall = 1,
                                      .image_size = "28x28x1",
                                      .classes = "10",
                                      .model = "mnist-conv"});
    write_file(dir_.path("full/oom"),
               R"({"model":"resnet50","image_size":"32x32x3","ranks":4,"hosts":1,"batch_per_rank":128})");
    const std::string a = "224x224x3 images, 1,000 classes, imagenet stem";
    EXPECT_EQ("", refusal(report("--scaling a small"), Exit::usage,
                          {"a is resnet50 on " + a, "small on 32x32x3 images, 1,000 classes, cifar stem"}));
    EXPECT_EQ("", refusal(report("--scaling a ten"), Exit::usage, {a, "ten on 224x224x3 images, 10 classes"}));
    EXPECT_EQ("", refusal(report("--scaling a stem"), Exit::usage,
                          {a, "stem on 224x224x3 images, 1,000 classes, cifar stem"}));
    EXPECT_EQ("", refusal(report("--scaling a full"), Exit::usage, {a, "full on 32x32x3 images"}))
        << "also one that ran out of memory";
    const Finished two_models = report("--scaling a digits --format csv");
    EXPECT_EQ("", failure(two_models));
    EXPECT_NE(two_models.out.find("mnist-conv,bf16,28x28x1,10,,gpu,128"), std::string::npos) << two_models.out;
    EXPECT_EQ("", failure(report("a small"))) << "side by side they may stand";
}

TEST_F(Report, RanksAreCalledGpusOnlyWhereEachHasOne) {
    write_bench(dir_.path("gpu"), {2, 128, {1}, 1});
    write_bench(dir_.path("cpu"), {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .device_kind = "cpu"});
    write_bench(dir_.path("shared"),
                {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .more = "share-device = true\n"});
    EXPECT_EQ(count(report("--scaling gpu").out, "\nnodes-GPUs "), 1);
    for (const char* run : {"cpu", "shared"}) {
        const std::string text = report(std::string("--scaling ") + run).out;
        EXPECT_EQ(count(text, "batch 128 a rank; speed-up over 2 ranks; not comparable"), 1) << text;
        EXPECT_EQ(count(text, "\nnodes-ranks "), 1) << text;
        EXPECT_EQ(count(text, "GPU"), 1) << "those of the published figures: " << text;
    }
    const auto cells = nlohmann::json::parse(report("--scaling cpu gpu --format json").out);
    EXPECT_EQ(cells.at(0)["device"], "cpu");
    EXPECT_EQ(cells.at(1)["device"], "gpu");
    EXPECT_EQ(cells.at(1)["speed_up"], 1.0) << "CPUs and GPUs are not compared";
}

// What ran out of memory has no rate: nothing is measured against it, wherever it stands.
TEST_F(Report, OutOfMemoryIsNoBaseline) {
    write_file(dir_.path("m/1n1g-b256-r1/oom"),
               R"({"model":"resnet50","precision":"bf16","ranks":1,"hosts":1,"batch_per_rank":256})");
    write_bench(dir_.path("m/1n2g-b256-r1"), {2, 256, {4}, 5.12});  // 100 images/s
    write_bench(dir_.path("m/1n4g-b256-r1"), {4, 256, {4}, 6.4});   // 160
    write_file(dir_.path("m/1n4g-b256-r2/oom"), "");
    write_file(dir_.path("m/1n8g-b256-r1/oom"), "");
    const Finished f = report("--scaling m/* --format csv");
    ASSERT_EQ("", failure(f));
    const std::string key = "Convoy,resnet50,bf16,224x224x3,1000,imagenet,gpu,256,1,";
    EXPECT_EQ(f.out.substr(f.out.find('\n') + 1), key + "1,0,OOM,,\n" + key + "2,1,100,1.0000,1.0000\n" + key +
                                                      "4,1,160,1.6000,0.8000\n" + key + "8,0,OOM,,\n");
    EXPECT_NE(report("--scaling m/*").out.find("; speed-up over 2 GPUs\n"), std::string::npos);
}

TEST_F(Report, RunsThatRanOutOfMemoryAreAccepted) {
    write_file(dir_.path("1n2g-b64-r1/oom"), "");
    write_file(dir_.path("mine/oom"), "");
    const Finished alone = report("mine");
    EXPECT_EQ("", failure(alone));
    EXPECT_EQ(alone.out, "mine\n  out of memory\n");
    const Finished none = report("--scaling 1n2g-b64-r1");
    EXPECT_EQ("", failure(none));
    EXPECT_EQ(none.out,
              "unknown model, unknown precision, images of unknown size, batch 64 a rank\n"
              "nodes-ranks  samples/s  speed-up  efficiency\n"
              "1-2                OOM         -           -\n");
    const Finished left_out = report("--scaling 1n2g-b64-r1 mine");
    EXPECT_EQ("", failure(left_out));
    EXPECT_EQ(left_out.out, none.out);
    EXPECT_EQ(count(left_out.err, "\n"), 1) << left_out.err;
    EXPECT_EQ(count(left_out.err, "warning: mine ran out of memory, but neither"), 1) << left_out.err;
}

TEST_F(Report, CellsAreMediansOfRepeats) {
    const auto run_of = [](int nodes, int gpus, double rate, bool oom = false) {
        return ScalingRun{"Convoy", "m", "f32", "1x1x1", 8, nodes, gpus, rate, oom};
    };
    const auto cells = scaling_cells({run_of(1, 4, 90), run_of(1, 2, 10), run_of(1, 2, 50), run_of(1, 2, 40),
                                      run_of(1, 4, 100), run_of(1, 4, NAN, true), run_of(1, 8, NAN, true)},
                                     {});
    ASSERT_EQ(cells.size(), 3u);
    EXPECT_DOUBLE_EQ(cells[0].run.samples_per_second, 40);
    EXPECT_EQ(cells[0].runs, 3);
    EXPECT_DOUBLE_EQ(cells[0].speed_up, 1);
    EXPECT_DOUBLE_EQ(cells[1].run.samples_per_second, 95);
    EXPECT_FALSE(cells[1].run.out_of_memory) << "two of three ran";
    EXPECT_DOUBLE_EQ(cells[1].efficiency, 95.0 / 40 / 2) << "over two GPUs, the fewest";
    EXPECT_TRUE(cells[2].run.out_of_memory);
    EXPECT_TRUE(std::isnan(cells[2].speed_up));
}

TEST_F(Report, ScalingIsDrawn) {
    if (run("/usr/bin/python3 -c 'import h5py, numpy, matplotlib'").code != 0)
        GTEST_SKIP() << "no python3 with h5py, numpy and matplotlib";
    const auto plot = [](const std::string& arguments) {
        return run("/usr/bin/python3 output/plot.py --scaling " + arguments);
    };
    const std::string picture = dir_.path("scaling.png");
    EXPECT_EQ("", failure(plot("- --out " + picture + " < tests/golden/report/scaling.json")));
    EXPECT_EQ(read_file(picture).substr(1, 3), "PNG");
    // Every word of the picture, of GPUs and of ranks on CPUs.
    write_file(dir_.path("words.py"), R"(import sys
sys.path.insert(0, "output")
import plot
from matplotlib.text import Text
plot.save = lambda figure, out: print("\n".join(text.get_text() for text in figure.findobj(Text)))
plot.draw_scaling(plot.read_cells(sys.argv[1]), None, None)
)");
    const std::string gpus = read_file("tests/golden/report/scaling.json");
    write_file(dir_.path("gpus.json"), gpus);
    write_file(dir_.path("cpus.json"), std::regex_replace(gpus, std::regex("\"gpu\""), "\"cpu\""));
    const auto words = [&](const std::string& file) {
        return run("/usr/bin/python3 " + dir_.path("words.py") + " " + dir_.path(file)).out;
    };
    EXPECT_NE(words("gpus.json").find("resnet50, bf16, 224x224x3, batch 128 a GPU\n"), std::string::npos)
        << words("gpus.json");
    EXPECT_NE(words("cpus.json").find("resnet50, bf16, 224x224x3, batch 128 a rank\n"), std::string::npos)
        << words("cpus.json");
    EXPECT_EQ(count(words("cpus.json"), "GPU"), 0);
    write_file(dir_.path("none.json"), R"([{"out_of_memory": true, "samples_per_second": null}])");
    for (const auto& [arguments, code, word] : std::vector<std::tuple<std::string, int, std::string>>{
             {dir_.path("none.json"), 3, "nothing to draw"}, {"README.md", 3, "README.md"}, {"a b", 2, "one file"}}) {
        const Finished f = plot(arguments);
        EXPECT_EQ(f.code, code) << arguments;
        EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
        EXPECT_NE(f.err.find(word), std::string::npos) << f.err;
    }
}

// What bench writes is what report reads.
TEST_F(Report, ReadsWhatBenchWrites) {
    const Finished f = launch(
        2, "bench --model mnist-linear --batch-per-rank 4 --warmup 1 --steps 9 --threads 1 --output " + dir_.path("b"));
    ASSERT_EQ("", failure(f));
    const RunSummary s = summarise(dir_.path("b"));
    EXPECT_EQ(s.model, "mnist-linear");
    EXPECT_EQ(s.image_size, "28x28x1");
    EXPECT_EQ(s.precision, "f32");
    EXPECT_EQ(s.batch_per_rank, 4);
    EXPECT_EQ(s.steps, 10);
    const auto wall = nlohmann::json::parse(f.out.substr(f.out.find("\n{") + 1))["images_per_second"];
    EXPECT_NEAR(s.images_per_second, wall["wall"].get<double>(), 1e-9 * s.images_per_second);
    const std::string scaling = report("--scaling b").out;
    EXPECT_NE(scaling.find("mnist-linear, f32, 28x28x1 images, 10 classes, batch 4 a rank"), std::string::npos)
        << scaling;
    EXPECT_EQ(count(scaling, "GPU"), 0) << scaling;
    EXPECT_NEAR(s.step_images_per_second, wall["median"].get<double>(), 1e-9 * s.step_images_per_second)
        << "of an odd count";
}

// A training's rate against what the clock of this test allows: no faster than its steps by themselves,
// no slower than the whole job.
TEST_F(Report, TheRateIsImagesOverTheWallTimeOfTheEpochs) {
    make_data(dir_.path("data"), 600, 10, "28x28x1");
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ("", failure(launch(
                      2, "train --model mnist-linear --batch-size 60 --epochs 4 --threads 1 --log-interval 1 --data " +
                             dir_.path("data") + " --output " + dir_.path("run"))));
    const double job = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto sum = [&](const std::string& name) {
        const std::vector<double> values = column(dir_.path("run"), name);
        return std::accumulate(values.begin(), values.end(), 0.0);
    };
    const Finished f = report("run --format json");
    ASSERT_EQ("", failure(f));
    const double rate = nlohmann::json::parse(f.out).at(0)["images_per_second"];
    EXPECT_NEAR(rate, 4 * 600 / sum("epochs/seconds"), 1e-9 * rate);
    EXPECT_LE(rate, 4 * 600 / sum("train/step_seconds"));
    EXPECT_GE(rate, 4 * 600 / job);
}

// Stopped before the end of its first epoch, a run has steps but no wall time of an epoch: nothing takes
// its place in silence.
TEST_F(Report, WithoutACompletedEpochThereIsNoRate) {
    fs::create_directories(dir_.path("short"));
    {
        Metrics m(dir_.path("short"));
        m.run_attribute("global batch (--batch-size)", std::string("60"));
        m.add(RankRow{0, "node0", "CPU", 4});
        for (int step = 1; step <= 3; ++step) m.add(TrainRow{step, 1, 2.0, 0.3, 0.1, 0.02, 0.001, 0.004});
        m.publish();
    }
    EXPECT_TRUE(std::isnan(summarise(dir_.path("short")).images_per_second));
    EXPECT_NE(report("short").out.find("images/s       - (no epoch was completed); 3000.0 by the median step\n"),
              std::string::npos);
    const auto j = nlohmann::json::parse(report("short --format json").out).at(0);
    EXPECT_TRUE(j["images_per_second"].is_null());
    EXPECT_DOUBLE_EQ(j["median_step_images_per_second"], 3000);
    EXPECT_EQ("", refusal(report("--scaling short"), Exit::bad_input, {"short", "completed no epoch"}));
}

TEST_F(Report, MistakesAreRefused) {
    write_training(dir_.path("run"));
    write_file(dir_.path("text"), "no HDF5");
    for (const char* folder : {"empty", "broken"}) fs::create_directories(dir_.path(folder));
    write_file(dir_.path("broken/oom"), R"({"ranks": "many"})");
    Metrics(dir_.path("empty"));
    write_file(dir_.path("bad.csv"), "source,model\nPyTorch,resnet50,f32,224x224x3,1000,128,1,1,fast\n");
    std::string whole = read_file(dir_.path("run/metrics.h5"));
    whole.resize(whole.size() / 2);
    write_file(dir_.path("half.h5"), whole);
    const std::vector<std::tuple<std::string, Exit, std::vector<std::string>>> mistakes = {
        {"", Exit::usage, {"report RUN"}},
        {"run --format xml", Exit::usage, {"--format xml", "markdown"}},
        {"run --scalin", Exit::usage, {"--scalin", "--scaling"}},
        {"run --published x", Exit::usage, {"--published", "--scaling"}},
        {"run none", Exit::bad_input, {"none", "no such file"}},
        {"text", Exit::bad_input, {"text"}},
        {"half.h5", Exit::bad_input, {"half.h5"}},
        {"broken", Exit::bad_input, {"broken/oom"}},
        {"--scaling empty", Exit::bad_input, {"empty", "batch is not known"}},
        {"--scaling run --published none.csv", Exit::bad_input, {"none.csv", "--published"}},
        {"--scaling run --published bad.csv", Exit::bad_input, {"bad.csv:2"}}};
    for (const auto& [arguments, code, words] : mistakes)
        EXPECT_EQ("", refusal(report(arguments), code, words)) << arguments;
    EXPECT_EQ("", refusal(launch(2, "report " + dir_.path("none")), Exit::bad_input, {"none"})) << "on all ranks alike";
    EXPECT_EQ("", failure(report("--help")));
    EXPECT_EQ("", failure(report("empty"))) << "a run that has only begun";
}

}  // namespace
}  // namespace convoy::test
