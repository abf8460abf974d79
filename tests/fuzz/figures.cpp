// Good files of figures, in which a fuzzer's bytes exchange words; run from the repository's root.
#include "tests/fuzz/figures.h"

#include <cctype>

#include "accept/figures_file.h"
#include "accept/page.h"
#include "model/models.h"
#include "report/cluster_file.h"
#include "report/expected.h"
#include "report/measured_steps.h"
#include "report/prediction.h"
#include "report/published_runs.h"
#include "report/summary.h"
#include "run/metrics.h"
#include "tests/support/support.h"
#include "tests/unit/made_up_acceptance.h"

namespace convoy::test {
namespace {

const std::string cluster_text =
    "nodes = 4\ngpus-per-node = 8\ngpu = volta\nlink = nvlink\nnode-bandwidth = 120\nadapters = 4\n"
    "adapter-bandwidth = 12\nverbs = yes\nhop-latency = 5\nll128 = no\nchannels = 2\nhierarchical = yes\n"
    "input-rate = 10000\nstep = resnet50 f16 3.8 135.2 8\nall-reduce-table = sums.json\n";
const std::string sums_text =
    R"({"all_reduce": {"ranks": 8, "hosts": 2, "ranks_per_host": 4, "sizes": [{"bytes": 4, "seconds": 1e-5}, )"
    R"({"bytes": 1048576, "seconds": 2e-4}, {"bytes": 1073741824, "seconds": 0.1}]}})";
const std::string benchmark_text =
    R"({"bench": "resnet18", "hosts": 2, "ranks": 4, "batch_per_rank": 32, "step_seconds": 0.1, "precision": "f32", )"
    R"("image_size": "32x32x3", "device_kind": "gpu", "classes": 10})";
const std::string steps_text =
    "nodes,gpus,batch_per_gpu,images_per_s,precision,model\n1,1,32,100,f32,resnet18\n1,2,32,190,f32,resnet18\n"
    "2,4,64,390,f32,resnet18\n";
const std::string out_of_memory_text =
    R"({"model": "resnet50", "precision": "f32", "image_size": "224x224x3", "stem": "imagenet", "classes": 1000, )"
    R"("device_kind": "gpu", "ranks": 8, "hosts": 2, "batch_per_rank": 128, "message": "out of memory"})";

/// Replaces words of `text`. Each pair of `bytes` selects a word, counted from 0, and its
/// replacement.
std::string with_other_words(std::string text, Bytes bytes) {
    static const std::string others[] = {
        "0",     "1",      "-1",  "2",   "0.5",     "4294967297", "2147483647", "9223372036854775807",
        "1e308", "1e-308", "nan", "inf", "null",    "true",       "",           "\"",
        ",",     "{}",     "[]",  "\n",  "\x1b[2J", "resnet50",   "OOM",        std::string(3000, 'y')};
    const auto in_word = [](char c) { return std::isalnum(uint8_t(c)) || c == '.' || c == '-' || c == '_'; };
    for (; bytes.size() >= 2; bytes = bytes.subspan(2)) {
        std::vector<std::pair<size_t, size_t>> words;  // begin and end of each
        for (size_t end, i = 0; i < text.size(); i = end) {
            for (end = i; end < text.size() && in_word(text[end]);) ++end;
            if (end > i) words.emplace_back(i, end);
            end = std::max(end, i + 1);
        }
        if (words.empty()) break;
        const auto [from, to] = words[bytes[0] % words.size()];
        text.replace(from, to - from, others[bytes[1] % std::size(others)]);
    }
    return text;
}

Cluster good_cluster(const std::string& dir) {
    write_file(dir + "/sums.json", sums_text);
    write_file(dir + "/good.cluster", cluster_text);
    return read_cluster(dir + "/good.cluster");
}

/// Predicts as `convoy predict` does.
void predict(const MeasuredFile& measured, const Cluster& cluster) {
    PredictedTable t{.model = "resnet18",
                     .image_size = "32x32x3",
                     .cluster = cluster.name,
                     .batch = 32,
                     .work = {.gradients = ready_gradients(build_model({.name = "resnet18", .h = 32, .w = 32, .c = 3})),
                              .batch = 32}};
    for (const MeasuredStep& s : measured.steps) require_network(cluster, s.nodes);
    FittedStep fit = fit_step(measured.steps, t.work, cluster);
    t.step = std::move(fit.model);
    t.given = measured.steps;
    predict_cells(t, cluster, {1, cluster.ranks_per_node});
    for (const Format format : {Format::text, Format::json}) prediction_as(t, format);
    prediction_explained(t);
}

/// Reports as `convoy report --scaling --cluster` does.
void report(const std::vector<RunSummary>& runs, const std::vector<ScalingRun>& published, const std::string& dir) {
    summaries_as(runs, Format::text);
    std::vector<ScalingRun> scaling;
    for (const RunSummary& run : runs) scaling.push_back(as_scaling_run(run));
    std::vector<ScalingCell> cells = scaling_cells(scaling, published);
    add_expected(cells, good_cluster(dir));
    for (const Format format : {Format::text, Format::markdown, Format::csv, Format::json}) scaling_as(cells, format);
}

RunSummary measured_run() {
    RunSummary run;
    run.run = "mine";
    run.model = "resnet50";
    run.precision = "f32";
    run.image_size = "224x224x3";
    run.device = "gpu";
    run.classes = 1000;
    run.stem = "imagenet";
    run.ranks = run.hosts = 1;
    run.batch_per_rank = run.global_batch = 128;
    run.images_per_second = 400;
    return run;
}

/// Writes a run whose attributes and ranks the bytes select, and summarises it.
RunSummary crafted_run(const std::string& dir, Bytes bytes) {
    Metrics m(dir);
    const std::pair<const char*, const char*> attributes[] = {
        {"model", "resnet50"},         {"image size", "224x224x3"},  {"device kind", "gpu"},
        {"number of classes", "1000"}, {"configuration", "a = b\n"}, {"global batch (--batch-size)", "256"}};
    for (const auto& [name, value] : attributes) {
        const bool other = bytes.size() >= 2 && bytes[0] % 3 == 0;
        m.run_attribute(name, other ? with_other_words(value, bytes.first(2)) : value);
        if (bytes.size() >= 2) bytes = bytes.subspan(2);
    }
    const int ranks = bytes.empty() ? 2 : bytes[0] % 4;
    for (int rank = 0; rank < ranks; ++rank) m.add(RankRow{rank, rank % 2 ? "a" : "b", "GPU", 1});
    const int epochs = bytes.size() < 2 ? 2 : bytes[1] % 3;
    for (int epoch = 1; epoch <= epochs; ++epoch) m.add(EpochRow{epoch, 1000, 1, 1});
    m.publish();
    return summarise(dir);
}

}  // namespace

void read_figures(const std::string& dir, Bytes bytes) {
    const int file = bytes.empty() ? 0 : bytes[0] % 9;
    if (!bytes.empty()) bytes = bytes.subspan(1);
    const auto changed_file = [&](const std::string& name, const std::string& good) {
        write_file(dir + "/" + name, with_other_words(good, bytes));
        return dir + "/" + name;
    };
    switch (file) {
        case 0: {
            write_file(dir + "/sums.json", sums_text);
            const Cluster cluster = read_cluster(changed_file("x.cluster", cluster_text));
            return predict({.steps = {{.nodes = 1, .ranks = 1, .batch = 32, .seconds = 0.1}}}, cluster);
        }
        case 1: {
            changed_file("sums.json", sums_text);
            write_file(dir + "/x.cluster", cluster_text);
            const Cluster cluster = read_cluster(dir + "/x.cluster");
            return predict({.steps = {{.nodes = 1, .ranks = 1, .batch = 32, .seconds = 0.1}}}, cluster);
        }
        case 2:
            return predict(read_measured_steps(changed_file("x.json", benchmark_text), "resnet18"), good_cluster(dir));
        case 3: return predict(read_measured_steps(changed_file("x.csv", steps_text), "resnet18"), good_cluster(dir));
        case 4:
            return report({measured_run()},
                          read_published(changed_file("x.csv",
                                                      "source\nA,resnet50,f32,224x224x3,1000,128,1,1,300\n"
                                                      "A,resnet50,f32,224x224x3,1000,128,2,8,OOM\n")),
                          dir);
        case 5: {
            std::vector<RunSummary> runs = {measured_run()};
            add_published(runs, read_published_runs(changed_file(
                                    "x.csv", "source\nA,resnet50,224x224x3,1000,128,1,1,0.255,50000,200,98 %\n")));
            return report(runs, {}, dir);
        }
        case 6: changed_file("oom", out_of_memory_text); return report({measured_run(), summarise(dir)}, {}, dir);
        case 7: {
            static const std::string good = acceptance_json(made_up_acceptance());
            const Acceptance a = read_acceptance(with_other_words(good, bytes), "accept.json");
            acceptance_page(a);
            acceptance_metrics(a, "metrics.h5");
            return;
        }
        default: return report({crafted_run(dir, bytes), measured_run()}, {}, dir);
    }
}

}  // namespace convoy::test
