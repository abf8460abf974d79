#include "bench/measure.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/quantile.h"
#include "bench/timeline.h"

namespace convoy {
namespace {

/// Keeps the records of steps after the warm-up.
class Stopwatch final : public TrainListener {
public:
    Stopwatch(const Backend& backend, const BenchSteps& wanted)
        : backend_(backend), warmup_(wanted.warmup), last_(wanted.warmup + wanted.measured) {
        if (warmup_ == 0) began_ = Clock::now();
    }
    void on_steps(int64_t epoch, const std::vector<StepRecord>& records) override {
        for (const StepRecord& r : records)
            if (r.step > warmup_) rows.push_back(row_of(epoch, r));
        const int64_t step = records.back().step;
        if (!began_ && step >= warmup_) {
            began_ = Clock::now();
            first_ = step;
        }
        if (step < last_) return;
        memory = double(backend_.memory_taken());
        seconds = seconds_since(*began_);
        steps = step - first_;
    }
    bool at_once(int64_t step) const override { return step == warmup_; }
    void on_epoch(const EpochSummary&) override {}
    void on_checkpoint(Checkpoint&&) override {}
    void on_eval(int64_t, int64_t, const EvalResult&, bool) override {}
    std::optional<Checkpoint> on_rollback(int64_t) override { return std::nullopt; }

    std::vector<TrainRow> rows;
    double memory = 0, seconds = 0;  ///< bytes; seconds from the end of the warm-up to the last step
    int64_t steps = 0;               ///< number of steps in these seconds

private:
    const Backend& backend_;
    int64_t warmup_, last_, first_ = 0;
    std::optional<Clock::time_point> began_;
};

/// Returns the steps between reports, at most `most`. One report must come when the warm-up ends,
/// because the clock starts there.
int64_t report_interval(int64_t most, int64_t warmup) {
    int64_t interval = most;
    while (warmup > 0 && warmup % interval != 0) --interval;
    return interval;
}

/// Gathers medians and sums of every rank's steps. Collective.
void gather_ranks(Comm& comm, const Backend& backend, const Stopwatch& watch, Measured& all) {
    std::vector<double> step, data, compute, exposed;
    for (const TrainRow& r : watch.rows) {
        step.push_back(r.step_seconds);
        data.push_back(r.data_seconds);
        exposed.push_back(r.comm_exposed_seconds);
        compute.push_back(r.step_seconds - r.data_seconds - r.comm_exposed_seconds);
    }
    const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
    constexpr size_t columns = 9;
    const std::vector<double> of_ranks =
        comm.gather_all(std::vector<double>{median(step), median(data), median(compute), median(exposed), sum(data),
                                            sum(compute), sum(exposed), watch.memory, double(backend.facts().threads)});
    const std::vector<std::string> hosts = comm.gather_all(comm.host()),
                                   devices = comm.gather_all(backend.facts().device);
    BenchResult& r = all.result;
    const double share = 1.0 / comm.size();
    for (size_t rank = 0; rank < size_t(comm.size()); ++rank) {
        const double* of = of_ranks.data() + rank * columns;
        r.median.step += of[0] * share;
        r.median.data += of[1] * share;
        r.median.compute += of[2] * share;
        r.median.exposed += of[3] * share;
        r.peak_memory = std::max(r.peak_memory, of[7]);
        all.ranks.push_back(
            {.rank = int64_t(rank), .host = hosts[rank], .device = devices[rank], .threads = int64_t(of[8])});
        all.parts.push_back({.epoch = 1,
                             .rank = int64_t(rank),
                             .data_seconds = of[4],
                             .compute_seconds = of[5],
                             .collective_wait_seconds = of[6]});
    }
    r.hosts = int64_t(std::set<std::string>(hosts.begin(), hosts.end()).size());
}

/// Fills in what follows from the graph, the setup and the ranks.
void count(BenchResult& r, const Comm& comm, const Backend& backend, const Graph& graph, const SplitInfo& data,
           const TrainSetup& setup) {
    r.device = backend.facts().device;
    r.device_kind = backend.facts().synchronous ? "cpu" : "gpu";
    r.threads = backend.facts().threads;
    r.ranks = comm.size();
    r.classes = data.classes;
    r.parameters = int64_t(graph.parameter_count());
    r.global_batch = setup.global_batch;
    r.logical_ranks = setup.logical_ranks;
    r.batch_per_rank = setup.batch_split(comm.size()).samples_of(setup.global_batch, 0).count;
}

}  // namespace

void set_length(TrainSetup& setup, const SplitInfo& data, const BenchSteps& steps) {
    const int64_t total = steps.warmup + steps.measured, steps_an_epoch = data.images / setup.global_batch;
    const int64_t epochs = (total + steps_an_epoch - 1) / steps_an_epoch;
    setup.epochs = double(epochs);
    setup.max_steps = total;
    setup.on_nan = OnNan::skip;
    setup.audit_every = 0;
    setup.log_interval = report_interval(setup.log_interval, steps.warmup);
    setup.whitening_bias_epochs = steps.frozen ? 1.0 / double(steps_an_epoch) : 0;
}

Measured measure_steps(Comm& comm, Backend& backend, const Graph& graph, const DataSet& data, const TrainSetup& setup,
                       const BenchSteps& steps, BenchResult known,
                       const std::function<void(const Error&)>& on_failure) {
    Requests nobody;
    std::unique_ptr<Trainer> trainer;
    comm.together([&] { trainer = std::make_unique<Trainer>(comm, backend, graph, data, nullptr, setup, nobody); });
    trainer->programs().prepare();
    comm.together([&] { trainer->programs().build(); });
    trainer->programs().initialise();
    Stopwatch watch(backend, steps);
    std::vector<Span> timeline;
    std::vector<LaunchTime> profile;
    comm.or_abort([&] {
        try {
            trainer->run(watch);
            if (steps.traced > 0) timeline = convoy::timeline(comm, backend, trainer->programs(), steps.traced);
            if (steps.profiled > 0) profile = convoy::profile(comm, backend, trainer->programs(), steps.profiled);
        } catch (const Error& error) {
            on_failure(error);
            throw;
        }
    });

    Measured all;
    BenchResult& r = all.result = std::move(known);
    const int mine = int(setup.batch_split(comm.size()).samples_of(setup.global_batch, comm.rank()).count);
    const WorkByClass work = work_of_step(graph, mine, comm.size(), setup.optimizer, trainer->programs().algorithms());
    if (steps.profiled > 0) {
        r.classes_of_operations = by_class(profile, graph, work);
        comm.barrier();
        const bool in_f32 = std::any_of(work.begin(), work.end(), [](const auto& w) { return w.second.f32 > 0; });
        // All ranks must pass the same value, because they measure together. Ranks without samples
        // do not know it.
        r.ceilings = measure_ceilings(backend, graph.values.at(1).dtype, comm.max(in_f32 ? 1 : 0) > 0);
    }
    for (const auto& [name, w] : work) r.flops_per_image += w.flops / mine;
    for (const TrainRow& row : watch.rows) r.images_per_second.push_back(double(setup.global_batch) / row.step_seconds);
    if (watch.steps > 0) r.images_per_second_wall = double(watch.steps * setup.global_batch) / watch.seconds;
    r.warmup = steps.warmup;
    count(r, comm, backend, graph, data.info(), setup);
    gather_ranks(comm, backend, watch, all);
    if (!timeline.empty()) all.timeline = timeline_json(comm, timeline, graph, r);
    all.rows = std::move(watch.rows);
    all.seconds = watch.seconds;
    all.steps = watch.steps;
    return all;
}

}  // namespace convoy
