// convoy report --scaling: its golden files, the arithmetic of the table, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "report/summary.h"
#include "run/metrics.h"
#include "tests/unit/report_runs.h"

namespace convoy::test {
namespace {

using Scaling = ReportTest;

TEST_F(Scaling, ScalingTablesAreThoseOfTheGoldenFiles) {
    write_matrix();
    for (const auto& [format, name] : {std::pair{"text", "scaling.txt"},
                                       {"markdown", "scaling.md"},
                                       {"csv", "scaling.csv"},
                                       {"json", "scaling.json"}})
        expect_golden(name, std::string("--scaling m/* --format ") + format);
}

// A run that ran out of memory may have recorded little about itself.
TEST_F(Scaling, ARunWithoutMemoryStandsInTheTableOfItsLikes) {
    ScalingRun ran{"Convoy", "resnet50", "bf16", "224x224x3", 64, 1, 1, 400};
    ran.stem = "imagenet";
    ran.classes = 1000;
    ran.device = "gpu";
    ScalingRun other = ran;
    other.batch = 128;
    other.classes = 10;
    other.model = "resnet18";
    ScalingRun ended;
    ended.batch = 64;
    ended.nodes = 1;
    ended.ranks = 2;
    ended.out_of_memory = true;
    const std::vector<ScalingCell> cells = scaling_cells({other, ran, ended}, {});
    ASSERT_EQ(cells.size(), 3u);
    const auto cell = std::find_if(cells.begin(), cells.end(), [](const ScalingCell& c) { return c.run.ranks == 2; });
    ASSERT_NE(cell, cells.end());
    EXPECT_TRUE(cell->run.out_of_memory);
    EXPECT_TRUE(same_table(cell->run, ran)) << work_text(cell->run);
    EXPECT_EQ(cell->run.classes, 1000);
    EXPECT_EQ(cell->run.device, "gpu");
    EXPECT_EQ(work_text(cell->run), "224x224x3 images, 1,000 classes, imagenet stem");
}

TEST_F(Scaling, PublishedSpeedUps) {
    const auto published = read_published("output/published/resnet50-v100.csv");
    EXPECT_EQ(published.size(), 5 * 4 * 6u);  // sources, batches, numbers of GPUs
    ScalingRun mine{"Convoy", "resnet50", "f32", "224x224x3", 128, 1, 1, 400};
    mine.device = "gpu";
    std::map<std::string, ScalingCell> at_32;
    for (const ScalingCell& c : scaling_cells({mine}, published))
        if (c.run.ranks == 32) at_32[c.run.source] = c;
    ASSERT_EQ(at_32.size(), 5u);
    EXPECT_NEAR(at_32["PyTorch"].speed_up, 5552.77 / 347.12, 1e-12);
    EXPECT_NE(scaling_as(scaling_cells({mine}, published), Format::text).find("5552.77 (16.0)"), std::string::npos);
    EXPECT_NEAR(at_32["PyTorch"].efficiency, 5552.77 / 347.12 / 32, 1e-12);
    EXPECT_NEAR(at_32["OneFlow"].speed_up, 11548.451 / 383.760, 1e-12);
    mine.precision = "bf16";  // shown beside the published figures under its own precision
    for (const ScalingCell& c : scaling_cells({mine}, published))
        EXPECT_EQ(c.run.precision, c.run.source == "Convoy" ? "bf16" : "f32");
    mine.batch = 256;  // no figure was published for this batch
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
    (other = mine).model = "resnet18";  // no figure was published for this model
    EXPECT_EQ(scaling_cells({other}, published).at(0).note, "");
}

// Cells of the published tables that hold a word are shown, and are not used in ratios.
TEST_F(Scaling, PublishedCellsMayBeOomOrTodo) {
    const auto published = read_published("output/published/resnet50-v100.csv");
    ScalingRun mine{"Convoy", "resnet50", "f32", "224x224x3", 160, 1, 1, 400};
    mine.device = "gpu";
    const auto cells = scaling_cells({mine}, published);
    std::map<std::pair<std::string, int64_t>, ScalingCell> at;
    for (const ScalingCell& c : cells) at[{c.run.source, c.run.ranks}] = c;
    const ScalingCell oom = at.at({"TensorFlow", 16}), todo = at.at({"MxNet", 1});
    EXPECT_TRUE(oom.run.out_of_memory && !oom.run.to_do);
    EXPECT_TRUE(todo.run.to_do && !todo.run.out_of_memory);
    for (const ScalingCell& c : {oom, todo})
        EXPECT_TRUE(std::isnan(c.speed_up) && std::isnan(c.run.samples_per_second));
    EXPECT_NEAR(at.at({"TensorFlow", 32}).speed_up, 9869.94 / 336.23, 1e-12) << "what is beyond the gap still compares";
    EXPECT_NEAR(at.at({"PyTorch", 8}).speed_up, 1079.27 / 350.63, 1e-12);
    const std::string text = scaling_as(cells, Format::text), csv = scaling_as(cells, Format::csv);
    EXPECT_EQ(count(text, "OOM"), 1) << text;
    EXPECT_EQ(count(text, "TODO"), 6) << text;  // MxNet's column
    EXPECT_EQ(count(csv, ",OOM,,"), 1) << csv;
    EXPECT_EQ(count(csv, ",TODO,,"), 6) << csv;
    const auto json = nlohmann::json::parse(scaling_as(cells, Format::json));
    EXPECT_EQ(std::count_if(json.begin(), json.end(), [](const auto& c) { return c.at("to_do").template get<bool>(); }),
              6);
}

TEST_F(Scaling, OtherWordsThanOomAndTodoAreRefused) {
    write_file(dir_.path("p.csv"), "source\nPyTorch,resnet50,f32,224x224x3,1000,128,1,1,soon\n");
    EXPECT_EQ(
        "", problem_of_error(Exit::bad_input, {"p.csv:2", "OOM or TODO"}, [&] { read_published(dir_.path("p.csv")); }));
}

// A table has a cell for each row and source, so its size grows with their product.
TEST_F(Scaling, TooManyPublishedFiguresAreRefused) {
    const auto refused = [&](int rows, int sources, const std::string& ranks) {
        std::string text = "source\n";
        for (int i = 0; i < rows; ++i)
            text += "s" + std::to_string(i % sources) + ",resnet50,f32,224x224x3,1000,128,1," + ranks + ",100\n";
        write_file(dir_.path("p.csv"), text);
        return problem_of_error(Exit::bad_input, {"p.csv:"}, [&] { read_published(dir_.path("p.csv")); });
    };
    EXPECT_EQ("", refused(1001, 50, "8"));
    EXPECT_EQ("", refused(51, 51, "8"));
    EXPECT_EQ("", refused(1, 1, "16777217"));
    EXPECT_NE("", refused(1000, 50, "16777216")) << "a large table is accepted";
}

// Runs the scaling matrix itself in one small cell: it measures the models and images of the
// published figures.
TEST_F(Scaling, TheMatrixMeasuresResnetsOnImagesOfImageNet) {
    const std::string cells = dir_.path("cells");
    const Finished f =
        run(with_limit("env CONVOY_COMMAND=" + sibling("convoy") +
                           " bash -c 'source jobs/common.sh; launch=(env); CELL=1n1g BATCHES=1 REPEATS=1; "
                           "bench_on cpu resnet18 " +
                           cells + " --warmup 0 --steps 1 --profile-steps 0'",
                       120));
    ASSERT_EQ("", failure(f));
    const RunSummary s = summarise(cells + "/1n1g-b1-r1");
    const auto published = read_published("output/published/resnet50-v100.csv");
    EXPECT_EQ(s.image_size, published.at(0).image_size);
    EXPECT_EQ(s.classes, 1000);
    EXPECT_EQ(s.stem, "imagenet");
    EXPECT_EQ(s.device, "cpu");
}

// A ratio of images/s at 32x32 and at 224x224 is meaningless.
TEST_F(Scaling, ScalingRefusesMixedSizes) {
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

TEST_F(Scaling, RanksAreCalledGpusOnlyWhereEachHasOne) {
    write_bench(dir_.path("gpu"), {2, 128, {1}, 1});
    write_bench(dir_.path("cpu"), {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .device_kind = "cpu"});
    write_bench(dir_.path("shared"),
                {.ranks = 2, .batch = 128, .seconds = {1}, .wall = 1, .more = "share-device = true\n"});
    EXPECT_EQ(count(report("--scaling gpu").out, "\nnodes-GPUs "), 1);
    for (const char* run : {"cpu", "shared"}) {
        const std::string text = report(std::string("--scaling ") + run).out;
        EXPECT_EQ(count(text, "batch 128 per rank; speed-up over 2 ranks; not comparable"), 1) << text;
        EXPECT_EQ(count(text, "\nnodes-ranks "), 1) << text;
        EXPECT_EQ(count(text, "GPU"), 1) << "those of the published figures: " << text;
    }
    const auto cells = nlohmann::json::parse(report("--scaling cpu gpu --format json").out);
    EXPECT_EQ(cells.at(0)["device"], "cpu");
    EXPECT_EQ(cells.at(1)["device"], "gpu");
    EXPECT_EQ(cells.at(1)["speed_up"], 1.0) << "CPUs and GPUs are not compared";
}

// A run that ran out of memory has no rate, so it is no baseline, wherever it is in the table.
TEST_F(Scaling, OutOfMemoryIsNoBaseline) {
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

TEST_F(Scaling, RunsThatRanOutOfMemoryAreAccepted) {
    write_file(dir_.path("1n2g-b64-r1/oom"), "");
    write_file(dir_.path("mine/oom"), "");
    const Finished alone = report("mine");
    EXPECT_EQ("", failure(alone));
    EXPECT_EQ(alone.out, "mine\n  out of memory\n");
    const Finished none = report("--scaling 1n2g-b64-r1");
    EXPECT_EQ("", failure(none));
    EXPECT_EQ(none.out,
              "unknown model, unknown precision, images of unknown size, batch 64 per rank\n"
              "nodes-ranks  samples/s  speed-up  efficiency\n"
              "1-2                OOM         -           -\n");
    const Finished left_out = report("--scaling 1n2g-b64-r1 mine");
    EXPECT_EQ("", failure(left_out));
    EXPECT_EQ(left_out.out, none.out);
    EXPECT_EQ(count(left_out.err, "\n"), 1) << left_out.err;
    EXPECT_EQ(count(left_out.err, "warning: mine ran out of memory, but neither"), 1) << left_out.err;
}

TEST_F(Scaling, CellsAreMediansOfRepeats) {
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

TEST_F(Scaling, ScalingIsDrawn) {
    if (run("/usr/bin/python3 -c 'import h5py, numpy, matplotlib'").code != 0)
        GTEST_SKIP() << "no python3 with h5py, numpy and matplotlib";
    const auto plot = [](const std::string& arguments) {
        return run("/usr/bin/python3 src/plot/plot.py --scaling " + arguments);
    };
    const std::string picture = dir_.path("scaling.png");
    EXPECT_EQ("", failure(plot("- --out " + picture + " < tests/golden/report/scaling.json")));
    EXPECT_EQ(read_file(picture).substr(1, 3), "PNG");
    // Checks every word of the picture, for GPUs and for ranks on CPUs.
    write_file(dir_.path("words.py"), R"(import sys
sys.path.insert(0, "src/plot")
import convoy_plot_scaling
from matplotlib.text import Text
convoy_plot_scaling.save = lambda figure, out: print("\n".join(text.get_text() for text in figure.findobj(Text)))
convoy_plot_scaling.draw_scaling(convoy_plot_scaling.read_cells(sys.argv[1]), None, None)
)");
    const std::string gpus = read_file("tests/golden/report/scaling.json");
    write_file(dir_.path("gpus.json"), gpus);
    write_file(dir_.path("cpus.json"), std::regex_replace(gpus, std::regex("\"gpu\""), "\"cpu\""));
    const auto words = [&](const std::string& file) {
        return run("/usr/bin/python3 " + dir_.path("words.py") + " " + dir_.path(file)).out;
    };
    EXPECT_NE(words("gpus.json").find("resnet50, bf16, 224x224x3, batch 128 per GPU\n"), std::string::npos)
        << words("gpus.json");
    EXPECT_NE(words("cpus.json").find("resnet50, bf16, 224x224x3, batch 128 per rank\n"), std::string::npos)
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

}  // namespace
}  // namespace convoy::test
