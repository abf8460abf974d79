// convoy bench: a training as any other, on made-up images unless --data is given; its first steps are left out, the rest timed.
// The time by class of operations is taken in a short second phase, so that the main figure is undisturbed.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/durable.h"
#include "base/quantile.h"
#include "base/version.h"
#include "cli/bench_result.h"
#include "cli/bench_timeline.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/option_effects.h"
#include "cli/preflight.h"
#include "cli/run_folder.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "cli/versions.h"
#include "comm/watchdog.h"
#include "data/decode.h"
#include "model/models.h"

namespace convoy {
namespace {
namespace po = boost::program_options;

struct BenchOptions {
    std::string size;                                         ///< empty: the model's usual
    int64_t classes = 0, warmup = 0, steps = 0, profile = 0;  ///< classes 0: the usual
    std::string timeline;                                     ///< a file; empty: none
};

ParsedOptions parse_bench(const std::vector<std::string>& args, BenchOptions& b) {
    OptionsOf command{"bench",
                      "usage: convoy bench --model NAME --batch-per-rank N [--data DIR] [options]\n"
                      "Measures training steps: images/s, where the time goes, memory; one line of JSON comes last.\n"
                      "Nothing is written unless --output is given.\n",
                      "folder for metrics.h5 (default: nothing is written)",
                      {},
                      {"resume", "checkpoint-every", "keep", "time-limit", "strict-io", "publish-every", "metrics-every",
                       "on-nan", "epochs", "max-steps", "drop-last",
                       "eval-every", "eval-images", "no-eval", "tta", "dry-run", "chip", "print-config"},
                      false};
    command.more.add_options()  //
        ("image-size", po::value<std::string>(&b.size)->default_value("")->value_name("HxWxC"),
         "of made-up images (default: as the model takes them, or 32x32x3)")                                                  //
        ("classes", po::value<int64_t>(&b.classes)->default_value(0)->value_name("N"), "of made-up images (default 10)")      //
        ("warmup", po::value<int64_t>(&b.warmup)->default_value(20)->value_name("STEPS"), "first steps, which do not count")  //
        ("steps", po::value<int64_t>(&b.steps)->default_value(100)->value_name("STEPS"), "steps to measure")                  //
        ("profile-steps", po::value<int64_t>(&b.profile)->default_value(10)->value_name("STEPS"),
         "further steps, run operation by operation; 0: none")  //
        ("timeline", po::value<std::string>(&b.timeline)->default_value("")->value_name("FILE"),
         "write the median of 5 further steps as a trace of every rank: for Perfetto, or tests/timeline.py; on CPUs");
    ParsedOptions parsed = parse_train_options(args, command);
    if (parsed.options.help) return parsed;
    const auto within = [](const char* option, int64_t v, int64_t low, int64_t high) {
        if (v < low || v > high)
            fail(Exit::usage, "--" + std::string(option) + " " + std::to_string(v) + ": must be from " + std::to_string(low) + " to " +
                                  std::to_string(high));
    };
    within("classes", b.classes, 0, 1 << 20);
    within("warmup", b.warmup, 0, 1'000'000);
    within("steps", b.steps, 1, 10'000'000);
    within("profile-steps", b.profile, 0, 10'000);
    if (!b.size.empty()) image_size_of("image-size", b.size);
    if (!parsed.options.data.empty() && (!b.size.empty() || b.classes > 0))
        fail(Exit::usage,
             std::string(b.size.empty() ? "--classes" : "--image-size") + " is for made-up images; leave it out, or leave out --data");
    return parsed;
}

/// Made-up images: enough for every step if they take little memory, else they come again, in another order.
SplitInfo synthetic_info(const BenchOptions& b, const std::string& model, int64_t global_batch) {
    ModelOptions m = usual_images(model);
    if (!b.size.empty()) {
        const Shape s = image_size_of("image-size", b.size);
        m.h = s.h, m.w = s.w, m.c = s.c;
    }
    if (b.classes > 0) m.classes = int(b.classes);
    constexpr int64_t enough = 64 << 20;  // bytes: more than caches hold
    const int64_t steps_in_memory = std::max<int64_t>(1, enough / (global_batch * m.h * m.w * m.c));
    SplitInfo info{"train", global_batch * std::min(b.warmup + b.steps, steps_in_memory), m.h, m.w, m.c, m.classes, {}, {}, {}, ""};
    info.mean.assign(size_t(m.c), 0.5f);
    info.stddev.assign(size_t(m.c), 0.25f);
    return info;
}

std::string size_text(const SplitInfo& i) {
    return std::to_string(i.height) + "x" + std::to_string(i.width) + "x" + std::to_string(i.channels);
}

/// Rows of a made-up split. A rank draws some of its images and repeats them: nobody learns from them, and a large batch of large
/// images would else take minutes.
DataSet::Read repeated(const Source& made_up) {
    const Split split = made_up.splits.at(0);
    return [split](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
        constexpr int64_t enough = 16 << 20;  // bytes
        const int64_t drawn = std::min(rows, std::max<int64_t>(1, enough / split.image_bytes()));
        split.read(first, drawn, images, labels);
        for (int64_t i = drawn; i < rows; ++i) {
            std::copy_n(images + (i - drawn) * split.image_bytes(), split.image_bytes(), images + i * split.image_bytes());
            labels[i] = labels[i - drawn];
        }
    };
}

/// Keeps the records behind the warm-up.
class Measurement final : public TrainListener {
public:
    Measurement(const Backend& backend, int64_t warmup, int64_t last) : backend_(backend), warmup_(warmup), last_(last) {
        if (warmup == 0) began_ = Clock::now();
    }
    void on_steps(int64_t epoch, const std::vector<StepRecord>& records) override {
        for (const StepRecord& r : records)
            if (r.step > warmup_)
                rows.push_back(
                    {r.step, epoch, r.loss, r.accuracy, r.learning_rate, r.step_seconds, r.data_seconds, r.comm_exposed_seconds});
        const int64_t step = records.back().step;
        if (!began_ && step >= warmup_) began_ = Clock::now(), first_ = step;
        if (step == last_) memory = double(backend_.memory_taken()), seconds = seconds_since(*began_), steps = step - first_;
    }
    void on_epoch(const EpochSummary&) override {}
    void on_checkpoint(Checkpoint&&) override {}
    void on_eval(int64_t, int64_t, const EvalResult&, bool) override {}
    std::optional<Checkpoint> on_rollback(int64_t) override { return std::nullopt; }

    std::vector<TrainRow> rows;
    double memory = 0, seconds = 0;  ///< seconds: from the end of the warm-up to the last step
    int64_t steps = 0;               ///< done in these seconds

private:
    const Backend& backend_;
    int64_t warmup_, last_, first_ = 0;
    std::optional<Clock::time_point> began_;
};

/// Steps between reports, at most `most`. A report ends with the warm-up, where the clock starts.
int64_t report_interval(int64_t most, int64_t warmup) {
    int64_t interval = most;
    while (warmup > 0 && warmup % interval != 0) --interval;
    return interval;
}

/// What one rank has of everything; `ranks` and `parts` of all of them.
struct Measured {
    BenchResult result;
    std::vector<TrainRow> rows;
    std::vector<RankRow> ranks;
    std::vector<RankEpochRow> parts;
    double seconds = 0;
    int64_t steps = 0;     ///< done in these seconds
    std::string timeline;  ///< JSON, on rank 0
};

void add_ranks(Comm& comm, const Backend& backend, const Measurement& m, Measured& all) {
    std::vector<double> step, data, compute, exposed;
    for (const TrainRow& r : m.rows) {
        step.push_back(r.step_seconds), data.push_back(r.data_seconds), exposed.push_back(r.comm_exposed_seconds);
        compute.push_back(r.step_seconds - r.data_seconds - r.comm_exposed_seconds);
    }
    const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
    constexpr size_t columns = 9;
    const std::vector<double> of_ranks =
        comm.gather_all(std::vector<double>{median(step), median(data), median(compute), median(exposed), sum(data), sum(compute),
                                            sum(exposed), m.memory, double(backend.threads())});
    const std::vector<std::string> hosts = comm.gather_all(comm.host()), devices = comm.gather_all(backend.device());
    BenchResult& r = all.result;
    const double share = 1.0 / comm.size();
    for (int rank = 0; rank < comm.size(); ++rank) {
        const double* of = of_ranks.data() + size_t(rank) * columns;
        r.median.step += of[0] * share, r.median.data += of[1] * share, r.median.compute += of[2] * share,
            r.median.exposed += of[3] * share;
        r.peak_memory = std::max(r.peak_memory, of[7]);
        all.ranks.push_back({rank, hosts[size_t(rank)], devices[size_t(rank)], int64_t(of[8])});
        all.parts.push_back({1, rank, of[4], of[5], of[6]});
    }
    r.hosts = int64_t(std::set<std::string>(hosts.begin(), hosts.end()).size());
}

/// `failed` hears of a failure of this rank before the job ends.
Measured measure(Comm& comm, const ParsedOptions& parsed, const BenchOptions& b, const std::function<void(const Error&)>& failed) {
    TrainOptions o = parsed.options;
    const std::unique_ptr<Backend> backend = make_backend(o.device, backend_options_of(o), comm);
    std::unique_ptr<SplitReader> reader;
    SplitInfo info;
    TrainSetup setup;
    Graph graph;
    const int64_t total = b.warmup + b.steps;
    o.drop_last = true;  // a smaller batch would be another measurement
    o.checkpoint_every = "none";
    comm.together([&] {
        check_effects_on_device(parsed, *backend);
        if (!b.timeline.empty() && !backend->synchronous())
            fail(Exit::usage, "--timeline is of CPUs, and this runs on " + backend->device() + "; use nsys profile there, or --device cpu");
        if (!o.data.empty()) reader = std::make_unique<SplitReader>(o.data, "train");
        info = reader ? reader->info() : synthetic_info(b, o.model, o.batch_size > 0 ? o.batch_size : o.batch_per_rank * comm.size());
        setup = setup_of(o, info, comm.size(), std::nullopt);
        const int64_t steps_an_epoch = info.images / setup.global_batch;
        setup.epochs = (total + steps_an_epoch - 1) / steps_an_epoch;
        setup.max_steps = total;
        setup.on_nan = OnNan::skip;
        setup.log_interval = report_interval(setup.log_interval, b.warmup);
        graph = with_precision(fuse(build_model(model_of(o, info))), parse_precision(o.precision), backend->channel_multiple());
        check_effects_on_model(parsed, graph);
    });
    const Source made_up = make_synthetic({info.images, 0, info.height, info.width, info.channels, info.classes, uint64_t(o.seed)});
    const DataSet data = reader ? DataSet(comm, *backend, *reader) : DataSet(comm, *backend, info, repeated(made_up));

    Requests nobody;
    std::unique_ptr<Trainer> trainer;
    comm.together([&] {
        trainer = std::make_unique<Trainer>(comm, *backend, graph, data, nullptr, setup, nobody);
        trainer->build();
    });
    trainer->initialise();
    Measurement measurement(*backend, b.warmup, total);
    constexpr int64_t traced = 5;
    std::vector<Span> timeline;
    std::vector<StepTime> profile;
    comm.or_abort([&] {
        try {
            trainer->run(measurement);
            if (!b.timeline.empty()) timeline = trainer->timeline(traced);
            if (b.profile > 0) profile = trainer->profile(b.profile);
        } catch (const Error& error) {
            failed(error);
            throw;
        }
    });

    Measured all;
    BenchResult& r = all.result;
    const int mine = int(share_of(setup.global_batch, comm.size(), comm.rank()).count);
    const WorkByClass work = work_of_step(graph, mine, comm.size(), setup.optimizer);
    if (b.profile > 0) {
        r.classes_of_operations = by_class(profile, graph, work);
        comm.barrier();
        r.ceilings = measure_ceilings(*backend, graph.values.at(1).dtype);
    }
    for (const auto& [name, w] : work) r.flops_per_image += w.flops / mine;
    for (const TrainRow& row : measurement.rows) r.images_per_second.push_back(double(setup.global_batch) / row.step_seconds);
    if (measurement.steps > 0) r.images_per_second_wall = double(measurement.steps * setup.global_batch) / measurement.seconds;
    add_ranks(comm, *backend, measurement, all);
    r.model = o.model, r.precision = o.precision, r.device = backend->device(), r.data = o.data.empty() ? "synthetic" : o.data;
    r.image_size = size_text(info);
    r.device_kind = backend->synchronous() ? "cpu" : "gpu";
    r.versions = versions_of_run(*backend);
    r.classes = info.classes, r.parameters = int64_t(graph.trained_count()), r.ranks = comm.size(), r.threads = backend->threads();
    r.global_batch = setup.global_batch, r.batch_per_rank = share_of(setup.global_batch, comm.size(), 0).count, r.warmup = b.warmup;
    if (!timeline.empty()) all.timeline = timeline_json(comm, timeline, graph, r);
    all.rows = std::move(measurement.rows);
    all.seconds = measurement.seconds;
    all.steps = measurement.steps;
    return all;
}

void write_metrics(const std::string& dir, const Measured& all, const std::vector<std::string>& args, const ConfigPairs& config) {
    const BenchResult& r = all.result;
    Metrics metrics(dir);
    std::string line = "convoy bench";
    for (const std::string& arg : args) line += " " + arg;
    metrics.run_attribute("command_line", line);
    metrics.run_attribute("configuration", config_text(config));
    metrics.run_attribute("version", std::string(version));
    metrics.run_attribute("commit", std::string(commit()));
    for (const auto& [library, text] : r.versions) metrics.run_attribute("version_" + library, text);
    metrics.run_attribute("ranks", r.ranks);
    metrics.run_attribute("model", r.model);  // these as trainings write them
    metrics.run_attribute("image size", r.image_size);
    metrics.run_attribute("number of classes", std::to_string(r.classes));
    metrics.run_attribute("device kind", r.device_kind);
    metrics.run_attribute("global batch (--batch-size)", std::to_string(r.global_batch));
    metrics.run_attribute("bench", bench_json(r));
    for (const RankRow& row : all.ranks) metrics.add(row);
    for (const TrainRow& row : all.rows) metrics.add(row);
    metrics.add(EpochRow{1, all.steps * r.global_batch, all.seconds, r.images_per_second_wall});
    for (const RankEpochRow& row : all.parts) metrics.add(row);
    metrics.event(r.warmup + int64_t(all.rows.size()), "done", line);
    metrics.publish();
}

/// For `convoy report --scaling`: a cell of the matrix that does not fit.
void write_oom(const std::string& dir, const TrainOptions& o, const BenchOptions& b, int64_t ranks, int64_t hosts,
               const std::string& message) {
    const int64_t batch = o.batch_per_rank > 0 ? o.batch_per_rank : (o.batch_size + ranks - 1) / ranks;
    nlohmann::ordered_json j = {{"model", o.model}, {"precision", o.precision}, {"ranks", ranks},
                                {"hosts", hosts},   {"batch_per_rank", batch},  {"message", message}};
    if (o.device != "auto" && !o.share_device) j["device_kind"] = o.device == "cpu" ? "cpu" : "gpu";
    if (o.data.empty()) {
        const SplitInfo info = synthetic_info(b, o.model, batch * ranks);
        j["image_size"] = size_text(info);
        j["classes"] = info.classes;
        j["stem"] = stem_of({o.model, info.height, info.width, info.channels, info.classes, o.stem});
    }
    const std::string text = j.dump() + "\n";
    replace_file(dir + "/oom", std::vector<unsigned char>(text.begin(), text.end()));
}

}  // namespace

int bench(Comm& comm, const std::vector<std::string>& args) {
    BenchOptions b;
    ParsedOptions parsed;
    comm.together([&] { parsed = parse_bench(args, b); });
    const TrainOptions& o = parsed.options;
    if (o.help) {
        if (comm.root()) std::fputs(parsed.help.c_str(), stdout);
        return 0;
    }
    comm.together([&] { check_world(comm); });
    Terminal terminal(stderr, comm.root());  // stdout is the result's
    const Heartbeat heartbeat(comm.activity(), terminal);
    Watchdog watchdog(comm, watchdog_of(o));
    std::vector<std::pair<std::string, std::string>> alike = library_versions();
    alike.emplace_back("Convoy", std::string(version) + " " + commit());
    check_alike(comm, alike);

    std::unique_ptr<RunFolder> folder;
    comm.together([&] {
        if (!comm.root() || o.output.empty()) return;
        folder = std::make_unique<RunFolder>(o.output, false, o.overwrite);
        std::filesystem::remove(o.output + "/oom");
    });
    const std::vector<std::string> hosts = comm.gather_all(comm.host());
    Measured all;
    const auto failed = [&](const Error& error) {
        if (error.code == Exit::out_of_memory && folder)
            write_oom(o.output, o, b, comm.size(), int64_t(std::set<std::string>(hosts.begin(), hosts.end()).size()), error.what());
    };
    try {
        all = measure(comm, parsed, b, failed);
    } catch (const Error& error) {
        failed(error);
        throw;
    }
    comm.together([&] {
        if (!comm.root()) return;
        terminal.close();
        if (folder) write_metrics(o.output, all, args, parsed.resolved);
        std::printf("%s\n%s\n", bench_text(all.result).c_str(), bench_json(all.result).c_str());
        if (!b.timeline.empty()) replace_file(b.timeline, {all.timeline.begin(), all.timeline.end()});
    });
    return 0;
}

}  // namespace convoy
