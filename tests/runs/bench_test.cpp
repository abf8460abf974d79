// convoy bench: the work counted from shapes compared with sums by hand, the classes of a tape's
// launches, and what a run prints, writes and refuses. The tests do not check its speed.
#include <dnnl.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/quantile.h"
#include "base/table.h"
#include "bench/result.h"
#include "comm/replicated.h"
#include "model/models.h"
#include "model/precision.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

std::string last_line(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

/// Compares the recorded versions with those that the libraries report.
void expect_versions(const nlohmann::json& j) {
    const dnnl_version_t* onednn = dnnl_version();
    char of_onednn[32], of_hdf5[32];
    std::snprintf(of_onednn, sizeof of_onednn, "%d.%d.%d", onednn->major, onednn->minor, onednn->patch);
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    std::snprintf(of_hdf5, sizeof of_hdf5, "%u.%u.%u", major, minor, release);
    EXPECT_EQ(j.at("versions").at("onednn"), of_onednn);
    EXPECT_EQ(j.at("versions").at("hdf5"), of_hdf5);
}

/// Checks that every operation has a class, and that the bytes of every class that moves data are
/// counted. A renamed launch would fail here.
void expect_operations(const nlohmann::json& j) {
    std::set<std::string> classes;
    for (const auto& o : j["operations"]) {
        classes.insert(o["class"]);
        if (o["class"] != "record" && o["class"] != "requests") {
            EXPECT_GT(o["bytes"].get<double>(), 0) << o["class"];
        }
        if (std::string(o["class"]).starts_with("conv") && o["class"] != "conv bias gradient") {
            EXPECT_GT(o["flops"].get<double>(), 0) << o["class"];
        }
    }
    double least = 0;
    const double flops = j["ceilings"]["flops_per_second"], bytes = j["ceilings"]["bytes_per_second"];
    EXPECT_GT(flops, 1e8);
    EXPECT_GT(bytes, 1e7);
    for (const auto& o : j["operations"])
        if (o["class"] != "all-reduce")
            least += std::max(o["multiplied_flops"].get<double>() / flops, o["bytes"].get<double>() / bytes);
    EXPECT_NEAR(j["ceilings"]["roofline_seconds"].get<double>(), least, 1e-9 * least);
    for (const char* name :
         {"conv forward", "conv data gradient", "conv weight gradient", "pool forward", "pool gradient", "relu forward",
          "dropout gradient", "linear forward", "linear weight gradient", "loss forward", "loss gradient", "gather",
          "all-reduce", "optimizer"})
        EXPECT_EQ(classes.count(name), 1u) << name;
}

/// Checks the files of 25 steps of 12 images; the whole job took `job` seconds.
void expect_files(const std::string& run_dir, const nlohmann::json& j, double job) {
    const double middle = j["images_per_second"]["median"];
    std::vector<double> steps(25);
    std::iota(steps.begin(), steps.end(), 4.0);
    EXPECT_EQ(column(run_dir, "train/step"), steps) << "the warm-up is left out";
    const std::vector<double> step = column(run_dir, "train/step_seconds");
    std::vector<double> rates;
    for (double s : step) rates.push_back(12 / s);
    EXPECT_NEAR(median(rates), middle, 1e-9 * middle);
    EXPECT_EQ(column(run_dir, "ranks/rank"), (std::vector<double>{0, 1}));
    // The wall time begins with the first step that counts. --log-interval 4 would end no report
    // there.
    const double seconds = column(run_dir, "epochs/seconds").at(0), rate = 25 * 12 / seconds;
    EXPECT_EQ(column(run_dir, "epochs/images"), (std::vector<double>{25 * 12}));
    EXPECT_NEAR(column(run_dir, "epochs/images_per_second").at(0), rate, 1e-9 * rate);
    EXPECT_NEAR(j["images_per_second"]["wall"].get<double>(), rate, 1e-9 * rate);
    EXPECT_GE(seconds, std::accumulate(step.begin(), step.end(), 0.0)) << "no shorter than its steps";
    EXPECT_LE(seconds, job);
    const std::vector<double> data = column(run_dir, "rank_epochs/data_seconds"),
                              compute = column(run_dir, "rank_epochs/compute_seconds"),
                              wait = column(run_dir, "rank_epochs/collective_wait_seconds");
    ASSERT_EQ(compute.size(), 2u);
    const double sum = std::accumulate(step.begin(), step.end(), 0.0);
    EXPECT_NEAR(data[0] + compute[0] + wait[0], sum, 1e-9 * sum);
}

TEST(Bench, MeasuresMadeUpImages) {
    const TempDir dir;
    const auto start = std::chrono::steady_clock::now();
    const Finished f = launch(
        2,
        "bench --model mnist-conv --batch-per-rank 6 --warmup 3 --steps 25 --threads 1 --log-interval 4 --output " +
            dir.path("run"),
        120);
    const double job = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ("", failure(f));
    const auto j = nlohmann::json::parse(last_line(f.out));
    EXPECT_EQ(j["bench"], "mnist-conv");
    EXPECT_EQ(j["data"], "synthetic");
    EXPECT_EQ(j["image_size"], "28x28x1");
    EXPECT_EQ(j["parameters"], 21840);
    EXPECT_EQ(j["ranks"], 2);
    EXPECT_EQ(j["hosts"], 1);
    EXPECT_EQ(j["batch_per_rank"], 6);
    EXPECT_EQ(j["global_batch"], 12);
    EXPECT_EQ(j["steps"], 25);
    EXPECT_EQ(j["warmup_steps"], 3);
    const double low = j["images_per_second"]["p10"], middle = j["images_per_second"]["median"],
                 high = j["images_per_second"]["p90"];
    EXPECT_GT(low, 0);
    EXPECT_LE(low, middle);
    EXPECT_LE(middle, high);
    EXPECT_GT(j["images_per_second"]["wall"].get<double>(), 0);
    expect_versions(j);
    EXPECT_GT(j["peak_memory_bytes"].get<double>(), 1e6);
    EXPECT_NEAR(j["flops_per_second"].get<double>(), j["flops_per_image"].get<double>() * middle,
                1e-9 * j["flops_per_second"].get<double>());

    expect_operations(j);
    EXPECT_NE(f.out.find("\nconv forward "), std::string::npos) << f.out;

    expect_files(dir.path("run"), j, job);
    EXPECT_EQ("", refusal(launch(1, "bench --model mnist-linear --batch-per-rank 4 --output " + dir.path("run")),
                          Exit::usage, {dir.path("run"), "--overwrite"}));
}

/// Returns the events of one rank in a trace of `--timeline`, by phase.
std::vector<nlohmann::json> events_of(const nlohmann::json& trace, int rank, const std::string& phase) {
    std::vector<nlohmann::json> events;
    for (const auto& e : trace["traceEvents"])
        if (e["pid"] == rank && e["ph"] == phase) events.push_back(e);
    return events;
}

TEST(Bench, TimelineIsATraceOfEveryRank) {
    const TempDir dir;
    const std::string file = dir.path("new/trace.json");
    const std::string few = "--warmup 1 --steps 3 --profile-steps 0 --threads 1 ";
    const Finished f =
        launch(2, "bench --model mnist-conv --batch-per-rank 6 --bucket-mib 0.02 " + few + "--timeline " + file);
    ASSERT_EQ("", failure(f));
    const auto trace = nlohmann::json::parse(read_file(file));
    EXPECT_EQ(trace["otherData"]["bench"], "mnist-conv");
    std::vector<std::vector<std::string>> sums(2);
    for (int rank = 0; rank < 2; ++rank) {
        std::map<std::string, int> classes, names;
        double time = 0, waited = 0;  // events of one thread do not overlap
        for (const auto& e : events_of(trace, rank, "X")) {
            EXPECT_GE(e["ts"].get<double>(), time) << e;
            EXPECT_GE(e["dur"].get<double>(), 0) << e;
            time = e["ts"].get<double>() + e["dur"].get<double>();
            if (e["name"] == "wait for all-reduce") waited = time;
            ++classes[e["cat"]], ++names[e["name"]];
        }
        for (const char* name : {"gather", "wait for all-reduce", "record"}) EXPECT_EQ(names[name], 1) << name;
        for (const char* name : {"conv forward", "conv data gradient", "conv weight gradient", "optimizer"})
            EXPECT_GE(classes[name], 1) << name;

        const auto begins = events_of(trace, rank, "b"), ends = events_of(trace, rank, "e");
        ASSERT_EQ(begins.size(), ends.size());
        EXPECT_GE(begins.size(), 2u) << "several buckets";
        EXPECT_EQ(classes["all-reduce"], int(begins.size()) + 1) << "each is started once, and all are waited for";
        for (size_t i = 0; i < begins.size(); ++i) {
            EXPECT_EQ(begins[i]["id"], ends[i]["id"]);
            EXPECT_LT(begins[i]["ts"].get<double>(), ends[i]["ts"].get<double>());
            EXPECT_LE(ends[i]["ts"].get<double>(), waited);
            sums[rank].push_back(begins[i]["name"]);
        }
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_TRUE(events_of(trace, 2, "X").empty());
    EXPECT_EQ("", refusal(launch(1, "bench --model linear --batch-per-rank 2 " + few + "--timeline /proc/none/t"),
                          Exit::io, {"/proc/none"}));
}

TEST(Bench, MeasuresRealData) {
    const TempDir dir;
    make_data(dir.path("data"), 50, 10, "28x28x1");
    // 50 images are three full batches of 15 per epoch; a recipe may hold options without meaning
    // here.
    write_file(dir.path("a.cfg"), "model = mnist-linear\nepochs = 3\nbatch-size = 15\non-nan = rollback\n");
    const Finished f =
        launch(2, "bench --config " + dir.path("a.cfg") + " --data " + dir.path("data") +
                      " --warmup 0 --steps 11 --profile-steps 0 --threads 1 --output " + dir.path("run"));
    ASSERT_EQ("", failure(f));
    const auto j = nlohmann::json::parse(last_line(f.out));
    EXPECT_EQ(j["data"], dir.path("data"));
    EXPECT_EQ(j["global_batch"], 15);
    EXPECT_EQ(j["batch_per_rank"], 8) << "the larger share";
    EXPECT_TRUE(j["operations"].empty());
    EXPECT_FALSE(j.contains("ceilings")) << "measured with the operations only";
    EXPECT_EQ(column(dir.path("run"), "train/epoch"), (std::vector<double>{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4}));
    EXPECT_EQ("", refusal(launch(2, "bench --model mnist-linear --batch-per-rank 26 --data " + dir.path("data")),
                          Exit::usage, {"52", "50 training images"}));
}

TEST(Bench, MeasuresLogicalRanks) {
    const std::string start = "bench --model mnist-linear --warmup 1 --steps 3 --threads 1 ";
    const Finished f = launch(2, start + "--batch-per-rank 4 --virtual-ranks 3");
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("batch 8 per rank, 12 in all of 3 logical ranks"), std::string::npos) << f.out;
    const auto j = nlohmann::json::parse(last_line(f.out));
    EXPECT_EQ(j["logical_ranks"], 3);
    EXPECT_EQ(j["batch_per_rank"], 8) << "two logical ranks of 4";
    EXPECT_EQ(j["global_batch"], 12);
    EXPECT_EQ(j["steps"], 3);
    EXPECT_TRUE(j["operations"].empty()) << "they run side by side";
    EXPECT_NEAR(j["flops_per_image"].get<double>(), 2 * 2 * 784 * 10, 1e-9) << "forward and weight gradient";
    for (const std::string more : {"--profile-steps 3", "--timeline t.json", "--cluster c.cluster"})
        EXPECT_EQ("", refusal(launch(2, start + "--batch-size 8 --accumulate 2 " + more), Exit::usage,
                              {"--accumulate", more.substr(0, more.find(' '))}));
}

TEST(Bench, MemoryThatDoesNotSufficeIsCode7) {
    const TempDir dir;
    const std::string enormous =
        "bench --model resnet50 --device cpu --batch-size 399999 --threads 1 --output " + dir.path("run");
    EXPECT_EQ("", refusal(launch(2, enormous, 120), Exit::out_of_memory, {"out of memory", "smaller batch"}));
    const auto oom = nlohmann::json::parse(read_file(dir.path("run/oom")));
    EXPECT_EQ(oom["model"], "resnet50");
    EXPECT_EQ(oom["ranks"], 2);
    EXPECT_EQ(oom["hosts"], 1);
    EXPECT_EQ(oom["batch_per_rank"], 200000) << "the larger share, as of a cell that ran";
    EXPECT_EQ(oom["image_size"], "32x32x3");
    EXPECT_EQ(oom["classes"], 10);
    EXPECT_EQ(oom["stem"], "cifar");
    EXPECT_EQ(oom["device_kind"], "cpu");
    // The next measurement in this folder removes the file.
    EXPECT_EQ("", failure(launch(
                      1, "bench --model linear --batch-per-rank 2 --warmup 0 --steps 2 --output " + dir.path("run"))));
    EXPECT_FALSE(std::filesystem::exists(dir.path("run/oom")));

    const std::unique_ptr<Backend> backend = make_cpu_backend({1}, test_comm());
    EXPECT_EQ("", problem_of_error(Exit::out_of_memory, {"out of memory", "MiB"},
                                   [&] { backend->allocate(size_t(1) << 50); }));
    EXPECT_EQ("", problem_of_error(Exit::out_of_memory, {"data set", "MiB"},
                                   [] { Replicated(test_comm(), size_t(1) << 50); }));
    EXPECT_EQ("", problem_of_error(Exit::out_of_memory, {"out of memory"},
                                   [] { test_comm().together([] { throw std::bad_alloc(); }); }));
}

TEST(Bench, AUsersFileWithTheNameOfAResultStays) {
    const TempDir dir;
    const std::string path = dir.path("run/oom");
    const std::string start =
        "bench --model linear --batch-per-rank 2 --warmup 0 --steps 2 --output " + dir.path("run");
    const std::string deep = "{\"batch_per_rank\": " + std::string(40, '[') + std::string(40, ']') + "}";
    for (const std::string& text :
         {std::string("notes on memory"), std::string("[]"), std::string("{\"memory\": 1}"), deep}) {
        write_file(path, text);
        EXPECT_EQ("", refusal(convoy_alone(start), Exit::usage, {path + ": is not of a measurement", "--output"}));
        EXPECT_EQ(read_file(path), text);
    }
}

TEST(Bench, MistakesAreRefused) {
    const TempDir dir;
    const std::string start = "bench --model mnist-linear --batch-per-rank 4 ";
    const std::vector<std::tuple<std::string, Exit, std::vector<std::string>>> mistakes = {
        {start + "--epochs 3", Exit::usage, {"--epochs", "has no meaning for bench"}},
        {start + "--resume=auto", Exit::usage, {"--resume", "has no meaning for bench"}},
        {start + "--steps 0", Exit::usage, {"--steps 0", "from 1"}},
        {start + "--warmup -1", Exit::usage, {"--warmup -1"}},
        {start + "--profile-steps x", Exit::usage, {"--profile-steps", "'x'"}},
        {start + "--step 5", Exit::usage, {"--step", "--steps"}},
        {start + "--image-size 28x28x", Exit::usage, {"--image-size", "28x28x", "HxWxC"}},
        {start + "--image-size 32x32x3", Exit::bad_input, {"mnist-linear", "32x32x3"}},
        {start + "--classes 5 --data " + dir.path(), Exit::usage, {"--classes", "--data"}},
        {start + "--data " + dir.path("none"), Exit::bad_input, {dir.path("none")}},
        {"bench --model mnist-linear", Exit::usage, {"--batch-per-rank"}},
        {"bench --model lenet --batch-per-rank 4", Exit::usage, {"--model lenet", "resnet50"}},
        {start + "--output /proc/none", Exit::io, {"/proc/none"}}};
    for (const auto& [arguments, code, words] : mistakes)
        EXPECT_EQ("", refusal(launch(2, arguments), code, words)) << arguments;
    const Finished help = convoy_alone("bench --help");
    for (const char* option : {"--image-size", "--warmup", "--steps", "--profile-steps", "--timeline", "--precision"})
        EXPECT_NE(help.out.find(option), std::string::npos) << option;
    for (const char* option : {"--epochs", "--resume", "--dry-run"})
        EXPECT_EQ(help.out.find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace convoy::test
