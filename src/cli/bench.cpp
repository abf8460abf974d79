// convoy bench: measures the steps of a training, on synthetic images unless --data is given.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/durable.h"
#include "base/input_file.h"
#include "base/json_shape.h"
#include "base/redaction.h"
#include "bench/made_up.h"
#include "bench/measure.h"
#include "cli/auto_rate.h"
#include "cli/bench_options.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/option_effects.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "cli/train_steps.h"
#include "cli/versions.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"
#include "report/cluster_file.h"
#include "report/expected.h"

namespace convoy {
namespace {

SplitInfo made_up_split(const TrainOptions& o, const BenchOptions& b, int64_t global_batch) {
    return made_up_split(o.model.name, b.images, global_batch, b.steps.warmup + b.steps.measured);
}

/// Collective. Builds and measures the training.
Measured measure(Comm& comm, ParsedOptions& parsed, const BenchOptions& b,
                 const std::function<void(const Error&)>& on_failure) {
    const TrainOptions& o = parsed.options;
    const std::unique_ptr<Backend> backend = make_backend(o.device, o.backend, comm);
    std::unique_ptr<SplitReader> reader;
    SplitInfo info;
    TrainSetup setup;
    Graph graph;
    comm.together([&] {
        check_effects_on_device(parsed, *backend);
        if (!b.timeline.empty() && !backend->facts().synchronous)
            fail(Exit::usage, "--timeline is of CPUs, and this runs on " + backend->facts().device +
                                  "; use nsys profile there, or --device cpu");
        if (!o.data.empty()) reader = std::make_unique<SplitReader>(o.data, "train");
        info = reader ? reader->info() : made_up_split(o, b, asked_batch(o, comm.size()));
        setup = setup_of(o, info, comm.size(), std::nullopt);
        record_rates(setup.schedule, parsed.resolved);
        set_length(setup, info, b.steps);
        const Graph plain = o.tuning.frozen(build_model(model_of(o, info)));
        setup.rate_factors = factors_by_name(o.tuning.rate_factors, plain);
        graph = with_precision(fuse(plain), o.backend.precision, backend->facts().channel_multiple);
        check_effects_on_model(parsed, graph);
    });
    if (reader) check_same_split(comm, *reader);
    const Placed where = place(comm, *backend, o.placement, {info.image_bytes()});
    if (!reader && !where.resident())
        fail_everywhere(Exit::usage,
                        "made-up images are in memory; give --data for --data-placement partition or stream");
    const DataSet data = reader ? DataSet(comm, *backend, *reader, 0, where)
                                : DataSet(comm, *backend, info, made_up_rows(info, o.setup.seed), {}, where);
    BenchResult known;
    known.model = o.model.name;
    known.precision = name_of(o.backend.precision);
    known.data = o.data.empty() ? "synthetic" : o.data;
    const ModelOptions seen = model_of(o, info);
    known.image_size = formatted("%dx%dx%d", seen.h, seen.w, seen.c);
    known.versions = versions_of_run(*backend);
    if (!o.run.no_environment) known.environment = environment_of_run(*backend);
    return measure_steps(comm, *backend, graph, data, setup, b.steps, std::move(known), on_failure);
}

/// Reads the cluster file on every rank, before anything is measured.
std::optional<Cluster> cluster_of(const BenchOptions& b) {
    if (b.cluster.empty()) return std::nullopt;
    return read_cluster(b.cluster);
}

void expect(BenchResult& r, const Cluster& cluster, const TrainOptions& o) {
    ModelOptions model{.name = r.model, .classes = int(r.classes), .stem = o.model.stem};
    std::sscanf(r.image_size.c_str(), "%dx%dx%d", &model.h, &model.w, &model.c);
    const StepPrediction p = expected_step({.model = model,
                                            .batch = r.batch_per_rank,
                                            .nodes = int(r.hosts),
                                            .ranks = int(r.ranks),
                                            .compute_seconds = r.median.compute + r.median.data,
                                            .bucket_bytes = o.setup.bucket_bytes},
                                           cluster);
    r.expected_images_per_second = p.images_per_second;
    r.expected_limit = name_of(p.limit);
}

/// Returns the hosts and paths that --no-environment hides; hides nothing without that option.
Redaction redaction_of(const ParsedOptions& parsed, const std::vector<std::string>& hosts) {
    Redaction hide;
    if (!parsed.options.run.no_environment) return hide;
    for (const std::string& path : paths_of(parsed)) hide.add_path(path);
    hide.add_hosts(hosts);
    return hide;
}

void redact(const Redaction& hide, Measured& all) {
    all.result.data = hide(all.result.data);
    all.timeline = hide(all.timeline);
    for (RankRow& row : all.ranks) row.host = hide(row.host);
}

std::string text_of(const Measured& all, BenchLines lines) {
    if (lines == BenchLines::tf_cnn) return tf_cnn_text(all.result, all.rows);
    if (lines == BenchLines::horovod) return horovod_text(all.result, all.rows);
    return bench_text(all.result);
}

void write_metrics(const RunFiles& files, const Measured& all, const std::string& command_line,
                   const ConfigPairs& config) {
    const BenchResult& r = all.result;
    Metrics metrics(files);
    const RunAttributes run{.command_line = command_line,
                            .configuration = config,
                            .ranks = r.ranks,
                            .device_kind = r.device_kind,
                            .identity = {{"model", r.model},
                                         {"image size", r.image_size},
                                         {"number of classes", std::to_string(r.classes)},
                                         {"global batch (--batch-size)", std::to_string(r.global_batch)}},
                            .versions = r.versions,
                            .environment = r.environment};
    add_attributes(metrics, run);
    metrics.run_attribute("bench", bench_json(r));
    for (const RankRow& row : all.ranks) metrics.add(row);
    for (const TrainRow& row : all.rows) metrics.add(row);
    metrics.add(EpochRow{.epoch = 1,
                         .images = all.steps * r.global_batch,
                         .seconds = all.seconds,
                         .images_per_second = r.images_per_second_wall});
    for (const RankEpochRow& row : all.parts) metrics.add(row);
    metrics.event(r.warmup + int64_t(all.rows.size()), "done", run.command_line);
    metrics.publish();
}

/// Writes the file `oom`: from it, `convoy report --scaling` learns that a measurement ran out of
/// memory.
void write_oom(const RunFiles& files, const TrainOptions& o, const BenchOptions& b, int64_t ranks, int64_t hosts,
               const std::string& message) {
    const int64_t batch = o.batch_per_rank > 0 ? o.batch_per_rank : (o.batch_size + ranks - 1) / ranks;
    nlohmann::ordered_json j = {{"model", o.model.name},   {"precision", name_of(o.backend.precision)},
                                {"ranks", ranks},          {"hosts", hosts},
                                {"batch_per_rank", batch}, {"message", message}};
    if (o.device != "auto" && !o.backend.share_device) j["device_kind"] = o.device == "cpu" ? "cpu" : "gpu";
    if (o.data.empty()) {
        const SplitInfo info = made_up_split(o, b, batch * ranks);
        j["image_size"] = size_text(info);
        j["classes"] = info.classes;
        j["stem"] = stem_of(model_of(o, info));
    }
    const std::string text = j.dump() + "\n";
    replace_run_file(files.place("oom"), std::vector<unsigned char>(text.begin(), text.end()));
}

/// Removes the file `oom` of an earlier measurement. Throws Exit::usage if a user made that file.
void remove_oom(const HeldFolder& run) {
    if (!run.has("oom")) return;
    const std::string path = run.shown("oom"), advice = "move it away, or choose another --output",
                      text = text_of_input(path, 1 << 20, advice);
    const auto j = has_modest_shape(text) ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
    // an empty file is from jobs/matrix.sh
    if (!text.empty() && (!j.is_object() || !j.contains("batch_per_rank")))
        fail(Exit::usage, path + ": is not of a measurement; " + advice);
    run.try_to_remove("oom");
}

}  // namespace

int bench(Comm& comm, const std::vector<std::string>& args) {
    BenchOptions b;
    ParsedOptions parsed;
    std::optional<Cluster> cluster;
    comm.together([&] {
        parsed = parse_bench(args, b);
        cluster = cluster_of(b);
    });
    const TrainOptions& o = parsed.options;
    comm.together([&] { check_world(comm); });
    Terminal terminal(stderr, comm.root());  // stdout is for the result
    print_paths_of_recipe(terminal, parsed);
    const Heartbeat heartbeat(comm.activity(), terminal);
    Watchdog watchdog(comm, o.watchdog);
    check_same_command(comm, parsed);

    std::unique_ptr<RunFolder> folder;
    std::optional<HeldPlace> timeline;
    comm.together([&] {
        if (comm.root() && !b.timeline.empty()) check_place(timeline.emplace(b.timeline));
        if (!comm.root() || o.output.empty()) return;
        folder = std::make_unique<RunFolder>(o.output, false, o.overwrite);
        remove_oom(folder->files().run());
    });
    const std::vector<std::string> names = comm.gather_all(comm.host());
    const auto hosts = int64_t(std::set<std::string>(names.begin(), names.end()).size());
    comm.together([&] {
        if (cluster) require_network(*cluster, int(hosts));
    });
    const Redaction hide = redaction_of(parsed, names);
    const auto on_failure = [&](const Error& error) {
        if (error.code == Exit::out_of_memory && folder)
            write_oom(folder->files(), o, b, comm.size(), hosts, hide(error.what()));
    };
    Measured all;
    try {
        all = measure(comm, parsed, b, on_failure);
    } catch (const Error& error) {
        on_failure(error);
        throw;
    }
    comm.together([&] {
        if (!comm.root()) return;
        terminal.close();
        if (cluster && knows_sums(*cluster, all.result.device_kind, int(hosts)))
            expect(all.result, *cluster, o);
        else if (cluster)
            std::fprintf(stderr, "warning: nothing is expected: these sums go by MPI, and %s has no all-reduce-table\n",
                         b.cluster.c_str());
        redact(hide, all);
        for (auto& [option, value] : parsed.resolved) value = hide(value);
        if (folder) write_metrics(folder->files(), all, hide(command_line_of("bench", args)), parsed.resolved);
        std::printf("%s\n%s\n", text_of(all, b.lines).c_str(), bench_json(all.result).c_str());
        if (timeline) replace_file(*timeline, {all.timeline.begin(), all.timeline.end()});
    });
    return 0;
}

}  // namespace convoy
