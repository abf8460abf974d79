// The measurements of one run, kept by rank 0: RUN/metrics.h5 (tables for analysis) and RUN/metrics.jsonl (for tail -f).
// metrics.h5 is rebuilt in memory and renamed into place at every publish, so that it can be opened at any moment, also
// after kill -9; a row is in metrics.jsonl when add() returns, and in metrics.h5 only after the next publish().
#pragma once
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace convoy {

// One struct a table; what each field means, with its unit, stands once, in metrics_tables.h, and from there
// in the file itself. A double that was not measured stays NaN (null in metrics.jsonl), never zero.

/// /train: one optimizer step on rank 0. data_seconds and comm_exposed_seconds are parts of step_seconds, and the rest of it is
/// computation.
struct TrainRow {
    int64_t step = 0;   ///< optimizer steps done, from 1
    int64_t epoch = 0;  ///< the epoch the step belongs to, from 1
    double loss = NAN, accuracy = NAN, learning_rate = NAN;
    double step_seconds = NAN, data_seconds = NAN, comm_exposed_seconds = NAN;
};

/// /eval: one pass over the test split.
struct EvalRow {
    int64_t step = 0, epoch = 0;
    double loss = NAN, accuracy = NAN, seconds = NAN;
};

/// /epochs: one completed epoch of training, evaluation not included; of a resumed epoch the part after the restart.
struct EpochRow {
    int64_t epoch = 0;   ///< from 1
    int64_t images = 0;  ///< fewer than an epoch has if the run was resumed within it
    double seconds = NAN, images_per_second = NAN;
    double loss = NAN, accuracy = NAN;  ///< means over the images, as they were when they were trained on
};

/// /ranks: who took part.
struct RankRow {
    int64_t rank = 0;
    std::string host, device;
    int64_t threads = 0;
    std::string placement{};
};

/// /rank_epochs: the time of one rank in one epoch, in three parts. An all-reduce makes every rank's wall time equal, so a
/// straggler shows only here: it computes longer and waits less than the others.
struct RankEpochRow {
    int64_t epoch = 0, rank = 0;
    double data_seconds = NAN, compute_seconds = NAN, collective_wait_seconds = NAN;
};

/// /system: what a rank's device and process did, averaged over ten seconds.
struct SystemRow {
    double time = NAN;  ///< seconds since 1970, of the last sample
    int64_t rank = 0;
    double utilisation = NAN, memory_bytes = NAN, power_watts = NAN, clock_hz = NAN;
};

/// /events: restart, checkpoint, signal, warning. Written by Metrics::event.
struct EventRow {
    double time = NAN;  ///< seconds since 1970-01-01 UTC
    std::string iso_time;
    int64_t step = 0;
    std::string kind, message;
};

/// Where a run goes on: rows after this point will be computed again, and are dropped.
struct MetricsResume {
    int64_t step = 0;         ///< optimizer steps done by the checkpoint
    int64_t epochs_done = 0;  ///< epochs completed by then
    bool evaluation_due = false;  ///< the evaluation at `step` will be done again
};

using MetricTables = std::tuple<std::vector<TrainRow>, std::vector<EvalRow>, std::vector<EpochRow>, std::vector<RankRow>,
                                std::vector<RankEpochRow>, std::vector<SystemRow>, std::vector<EventRow>>;
struct MetricsFile {
    MetricTables tables;
    std::map<std::string, std::string> run;  ///< those attributes of /run that are text
    template <class Row> const std::vector<Row>& rows() const { return std::get<std::vector<Row>>(tables); }
};
/// Reads a metrics.h5, also of a run that goes on. Throws Exit::bad_input if it is damaged or none.
MetricsFile read_metrics(const std::string& path);

class Metrics {
public:
    using Value = std::variant<std::string, int64_t, double>;

    /// Starts the two files in `run_dir`, which exists. A new run publishes empty tables at once, so that metrics.h5 is there
    /// from the start. With `resume` the rows that metrics.h5 already has up to that point are kept (events all of them; ranks
    /// and attributes of /run none: set them anew). metrics.jsonl only ever grows: there a step done again stands twice.
    /// Throws Exit::io if the folder cannot be written; Exit::usage if it holds another run's metrics.h5 and `resume` is
    /// absent; Exit::bad_input if the metrics.h5 to go on with is damaged.
    explicit Metrics(const std::string& run_dir, std::optional<MetricsResume> resume = std::nullopt);
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    /// Sets an attribute of /run (configuration, command line, versions); a second value for a name replaces the first.
    void run_attribute(const std::string& name, Value value);

    /// Appends a row. Throws Exit::io if metrics.jsonl cannot be written (the row is then still in the next metrics.h5).
    void add(const TrainRow& row) { append(row); }
    void add(const EvalRow& row) { append(row); }
    void add(const EpochRow& row) { append(row); }
    void add(const RankRow& row) { append(row); }
    void add(const RankEpochRow& row) { append(row); }
    void add(const SystemRow& row) { append(row); }
    /// Appends to /events with the time of now, in UTC. In metrics.jsonl the event's kind is called "event".
    void event(int64_t step, const std::string& kind, const std::string& message);

    /// Forgets the rows after this point: the run goes on from there. Events stay.
    void go_back(const MetricsResume& to);

    /// Writes everything so far to metrics.h5. Throws Exit::io naming the file (disk full, folder gone); the file of the
    /// publish before stays as it was, and a later publish may succeed.
    void publish();
    /// publish(), if something was added, the last one is at least `every_seconds` ago, and no checkpoint is just being written.
    void publish_if_due(double every_seconds);

private:
    template <class Row> void append(const Row& row);
    void publish_locked();
    void write_line(const std::string& line);
    void load(const MetricsResume& resume);

    std::string path_, lines_path_;  // metrics.h5, metrics.jsonl
    int lines_ = -1;                 // file descriptor of metrics.jsonl
    bool torn_ = true;               // metrics.jsonl may end within a line
    bool changed_ = false;           // something is not in metrics.h5 yet
    std::chrono::steady_clock::time_point published_;
    std::vector<std::pair<std::string, Value>> attributes_;
    MetricTables tables_;
};

}  // namespace convoy
