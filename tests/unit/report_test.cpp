// convoy report: golden files of every format from small generated runs, the arithmetic of the
// scaling table, and refusals. CONVOY_WRITE_GOLDEN=1 rewrites the golden files; review them before
// you commit.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <sstream>

#include "report/summary.h"
#include "run/metrics.h"
#include "tests/unit/report_runs.h"

namespace convoy::test {
namespace {

using Report = ReportTest;

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
    EXPECT_DOUBLE_EQ(s.of_ranks[0].utilisation, (0.5 + 0.5 + 10 * 0.875) / 12) << "by the seconds of a row";
    EXPECT_EQ(s.of_ranks[0].celsius, 64);
    EXPECT_TRUE(std::isnan(s.of_ranks[1].utilisation) && std::isnan(s.of_ranks[1].celsius));
    EXPECT_EQ(s.events.size(), 2u);
}

// The last rows of /train may be missing; the event that ended the run has its step.
TEST_F(Report, StepsAreThoseOfTheLastRowOrEvent) {
    write_training(dir_.path("run"));
    {
        Metrics m(dir_.path("run"), MetricsResume{4, 2, false});
        m.event(7, "stop", "SIGUSR1");
        m.publish();
    }
    EXPECT_EQ(summarise(dir_.path("run")).steps, 7);
}

// Rows of several ranks are in the order of time.
TEST_F(Report, ARankIsAsBusyAsItsOwnRowsSay) {
    Metrics m(dir_.path());
    m.run_attribute("model", std::string("mnist-conv"));
    for (int r = 0; r < 2; ++r) m.add(RankRow{.rank = r, .host = "node", .device = "CPU"});
    const std::tuple<double, int, double> rows[] = {{100, 0, 0.5},  {100.5, 1, 0.125}, {102, 0, 0.25},
                                                    {106, 1, 0.75}, {107, 0, 1},       {107.5, 1, 0.5}};
    for (const auto& [time, rank, busy] : rows) m.add(SystemRow{.time = time, .rank = rank, .utilisation = busy});
    m.publish();
    const RunSummary s = summarise(dir_.path());
    ASSERT_EQ(s.of_ranks.size(), 2u);
    EXPECT_DOUBLE_EQ(s.of_ranks[0].utilisation, (1 * 0.5 + 2 * 0.25 + 5 * 1) / 8);
    EXPECT_DOUBLE_EQ(s.of_ranks[1].utilisation, (1 * 0.125 + 5.5 * 0.75 + 1.5 * 0.5) / 8);
}

// The ranks computed for 2 and 4 seconds: the median is 3.
TEST_F(Report, TheSlowestRankIsComparedWithTheMedian) {
    write_training(dir_.path("run"));
    const RunSummary s = summarise(dir_.path("run"));
    const std::string line = "rank 1 on node1 computes longest, 33.3 % longer than the median rank\n";
    EXPECT_NE(summaries_as({s}, Format::text).find("  slowest        " + line), std::string::npos);
    EXPECT_NE(summaries_as({s}, Format::markdown).find("\n\n" + line), std::string::npos);
    RunSummary one = s;
    one.of_ranks.pop_back();
    EXPECT_EQ(summaries_as({one}, Format::text).find("computes longest"), std::string::npos);
}

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
    EXPECT_NE(scaling.find("mnist-linear, f32, 28x28x1 images, 10 classes, batch 4 per rank"), std::string::npos)
        << scaling;
    EXPECT_EQ(count(scaling, "GPU"), 0) << scaling;
    EXPECT_NEAR(s.step_images_per_second, wall["median"].get<double>(), 1e-9 * s.step_images_per_second)
        << "of an odd count";
}

// A training's rate, compared with this test's clock: no faster than its steps alone, no slower
// than the whole job.
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

// A run that stopped before the end of its first epoch has steps but no wall time of an epoch. No
// other time replaces it silently.
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

// A pass over a stranger's file of these rows for each rank would take a minute.
TEST_F(Report, ReadsEachRowOfManyRanksOnce) {
    constexpr int ranks = 60'000;
    fs::create_directories(dir_.path("many"));
    Metrics m(dir_.path("many"));
    for (int r = 0; r < ranks; ++r) {
        m.add(RankRow{r, "node", "CPU", 1});
        for (int i = 1; i <= 4; ++i) {
            m.add(RankEpochRow{i, r, 0.25, 1.0, double(r)});
            m.add(SystemRow{.time = double(i), .rank = r, .utilisation = 0.5, .temperature_celsius = double(r)});
        }
    }
    m.publish();
    const Finished f = run("cd " + dir_.path() + " && " + with_limit(sibling("convoy") + " report many", 10));
    ASSERT_EQ("", failure(f));
    const std::string last = f.out.substr(f.out.rfind("\n", f.out.size() - 2) + 1);
    std::istringstream words(last);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    EXPECT_EQ(cells,
              (std::vector<std::string>{"59999", "node", "CPU", "1", "1.00", "4.00", "239996.00", "50.0", "59999"}))
        << last;
    record_fault("metrics of 60,000 ranks", "`report`: each row is read once", "as promised", 1);
}

TEST_F(Report, NumbersOfAnotherKindOfMachineAreRefused) {
    fs::create_directories(dir_.path("run"));
    int refused = 0;
    for (const char* name : {"ranks", "hosts", "batch_per_rank", "classes"})
        for (const char* value : {"9223372036854775807", "18446744073709551615", "-1", "1e300", "2.5", "1048577"}) {
            write_file(dir_.path("run/oom"),
                       std::string("{\"ranks\": 4, \"batch_per_rank\": 4, \"") + name + "\": " + value + "}");
            refused +=
                problem_of_error(Exit::bad_input, {"run/oom", "damaged"}, [&] { summarise(dir_.path("run")); }) == "";
        }
    EXPECT_EQ(refused, 24);
    write_file(dir_.path("run/oom"), R"({"ranks": 1048576, "batch_per_rank": 1048576})");
    EXPECT_EQ(summarise(dir_.path("run")).global_batch, int64_t(1) << 40);
    record_fault("a file `oom` whose numbers no machine has", "`report`: one line, exit 3", "as promised", refused);
}

// A parser takes 70 times the memory of nested lists.
TEST_F(Report, AResultThatIsNestedDeeplyIsRefused) {
    fs::create_directories(dir_.path("run"));
    int refused = 0;
    for (const std::string& text : {std::string(1 << 20, '['), R"({"ranks": 4, "batch_per_rank": 4, "message": )" +
                                                                   std::string(40, '[') + std::string(40, ']') + "}"}) {
        write_file(dir_.path("run/oom"), text);
        refused += refusal(report("run"), Exit::bad_input, {"run/oom", "damaged"}) == "";
    }
    EXPECT_EQ(refused, 2);
    record_fault("a file `oom` that is nested deeply", "`report`: one line, exit 3", "as promised", refused);
}

TEST_F(Report, AttributesThatNoMachineHasAreNotKnown) {
    fs::create_directories(dir_.path("run"));
    Metrics m(dir_.path("run"));
    m.run_attribute("global batch (--batch-size)", std::string("9223372036854775807"));
    m.run_attribute("number of classes", std::string("-5"));
    m.add(RankRow{0, "node", "CPU", 1});
    m.add(RankRow{1, "node", "CPU", 1});
    m.publish();
    const RunSummary s = summarise(dir_.path("run"));
    EXPECT_EQ(s.global_batch, 0);
    EXPECT_EQ(s.batch_per_rank, 0);
    EXPECT_EQ(s.classes, 0);
    for (int epoch = 1; epoch <= 2; ++epoch) m.add(EpochRow{epoch, INT64_MAX, 1, 1});
    m.publish();
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"/epochs", "damaged"}, [&] { summarise(dir_.path("run")); }));
}

// Each row of a comparison repeats the longest value of its column.
TEST_F(Report, LongTextsOfARunAreRefusedOrShortened) {
    for (const int bytes : {1000, 1 << 20}) {
        const TempDir folder;
        Metrics m(folder.path());
        m.run_attribute("configuration", "data = " + std::string(size_t(bytes), 'x') + "\n");
        m.run_attribute("model", std::string(size_t(bytes), 'y'));
        m.add(RankRow{0, "node", "CPU", 1});
        m.publish();
        if (bytes == 1000)
            EXPECT_EQ(summarise(folder.path()).model.size(), 200u);
        else
            EXPECT_EQ("", problem_of_error(Exit::bad_input, {"options of more than 256 KiB"},
                                           [&] { summarise(folder.path()); }));
    }
}

// A column is as wide as its longest cell, in each of up to a million rows.
TEST_F(Report, NumbersThatNobodyMeasuredAreShort) {
    fs::create_directories(dir_.path("run"));
    Metrics m(dir_.path("run"));
    for (int rank = 0; rank < 3; ++rank) m.add(RankRow{rank, "node", "CPU", 1});
    for (int rank = 0; rank < 3; ++rank) m.add(RankEpochRow{1, rank, 1e308, 1e300, 1, 1});
    m.publish();
    const std::string text = summaries_as({summarise(dir_.path("run"))}, Format::text);
    EXPECT_NE(text.find("1e+308"), std::string::npos) << text;
    EXPECT_LT(text.size(), 2000u) << text;
}

TEST_F(Report, ARunWithoutRanksHasNoPlaceInAScalingTable) {
    RunSummary sound;
    sound.run = "r";
    sound.hosts = 1;
    sound.ranks = 2;
    sound.global_batch = 8;
    sound.images_per_second = 100;
    EXPECT_EQ(as_scaling_run(sound).ranks, 2);
    for (int64_t RunSummary::* field : {&RunSummary::ranks, &RunSummary::hosts}) {
        RunSummary without = sound;
        without.*field = 0;
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {"r: records no ranks", "--scaling"},
                                       [&] { as_scaling_run(without); }));
    }
}

// LibreOffice and Excel compute such cells, also quoted ones.
TEST_F(Report, CellsOfCsvAreNoFormulas) {
    write_file(dir_.path("=HYPERLINK(1)/oom"), R"j({"model": "@SUM(1,2)", "precision": "-1+1", "image_size": "+A1"})j");
    const Finished f = report("--format csv '=HYPERLINK(1)'");
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("\n'=HYPERLINK(1),"), std::string::npos) << f.out;
    EXPECT_NE(f.out.find("\"'@SUM(1,2)\""), std::string::npos) << f.out;
    EXPECT_NE(f.out.find("'-1+1"), std::string::npos) << f.out;
}

TEST_F(Report, MistakesAreRefused) {
    write_training(dir_.path("run"));
    write_file(dir_.path("text"), "no HDF5");
    ASSERT_EQ(::mkfifo(dir_.path("pipe").c_str(), 0600), 0);
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
        {"--scaling run --published bad.csv", Exit::bad_input, {"bad.csv:2"}},
        {"--scaling run --published pipe", Exit::bad_input, {"pipe", "not a regular file"}}};
    for (const auto& [arguments, code, words] : mistakes)
        EXPECT_EQ("", refusal(report(arguments), code, words)) << arguments;
    EXPECT_EQ("", refusal(launch(2, "report " + dir_.path("none")), Exit::bad_input, {"none"})) << "on all ranks alike";
    EXPECT_EQ("", failure(report("--help")));
    EXPECT_EQ("", failure(report("empty"))) << "a run that has only begun";
}

}  // namespace
}  // namespace convoy::test
