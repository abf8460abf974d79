// The measurements of one run, kept by rank 0: RUN/metrics.h5 (tables for analysis) and
// RUN/metrics.jsonl (for tail -f). metrics.h5 is rebuilt in memory and renamed into place at every
// publish, so that it can be opened at any moment, also after kill -9. Adding a row only stores it:
// write_lines() and publish() bring it to the files.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "base/redaction.h"
#include "train/metrics_file.h"
#include "train/metrics_lines.h"
#include "train/metrics_rows.h"
#include "train/run_files.h"

namespace convoy {

/// Where a run goes on: rows after this point will be computed again, and are dropped.
struct MetricsResume {
    int64_t step = 0;             ///< optimizer steps done by the checkpoint
    int64_t epochs_done = 0;      ///< epochs completed by then
    bool evaluation_due = false;  ///< the evaluation at `step` will be done again
};

/// The row budget of /train: every step of a run up to a million, of a longer one every second,
/// third, …; 72 MB. Other tables have all their rows. `wanted`: so many steps; 0: as the budget is.
constexpr int64_t steps_between_rows(int64_t total_steps, int64_t wanted = 0) {
    if (wanted > 0) return wanted;
    constexpr int64_t most_rows = 1'000'000;
    return total_steps <= most_rows ? 1 : (total_steps + most_rows - 1) / most_rows;
}
/// What both files of a run take in bytes, with a new metrics.h5 next to the old one.
size_t bytes_of_metrics(int64_t train_rows, int64_t epochs, int64_t ranks);

/// Any thread may call these functions. Those that add rows never wait for the disk.
class Metrics {
public:
    /// Starts the two files in `run_dir`. A new run publishes empty tables at once,
    /// so that metrics.h5 is there from the start. With `resume` it keeps the rows that metrics.h5
    /// has up to that point, and all events; ranks and attributes of /run are set anew.
    /// metrics.jsonl only ever grows: a step done again stands there twice. Throws
    /// - Exit::io if the folder cannot be written,
    /// - Exit::usage without `resume` if the folder holds a metrics.h5,
    /// - Exit::bad_input if the metrics.h5 to go on with is damaged.
    explicit Metrics(const RunFiles& run_dir, std::optional<MetricsResume> resume = std::nullopt);

    /// Sets an attribute of /run (configuration, command line, versions); a second value for a name
    /// replaces the first.
    void run_attribute(const std::string& name, MetricsValue value);

    template <class Row> void add(const Row& row) {
        const std::lock_guard lock(mutex_);
        std::get<Rows<Row>>(tables_).push_back(row);
        ++changes_;
    }
    /// Appends to /events with the time of now, in UTC. In metrics.jsonl the event's kind is called
    /// "event".
    void event(int64_t step, const std::string& kind, const std::string& message);

    /// From now on events do not say what this takes out.
    void redact(const Redaction&);
    /// The options of an earlier start whose rows are kept, as config_text() has them; else empty.
    const std::string& configuration_before() const { return configuration_before_; }

    /// Forgets the rows after this point: the run goes on from there. Events stay.
    void go_back(const MetricsResume& to);

    /// Whether something is not in metrics.h5 yet.
    bool changed() const;
    /// Appends what was added to metrics.jsonl. Throws Exit::io; a later call writes what is
    /// missing then.
    void write_lines();
    /// Writes everything so far to both files. Throws Exit::io naming the file (disk full, folder
    /// gone); the metrics.h5 of the publish before stays as it was, and a later publish may
    /// succeed.
    void publish();

private:
    struct Snapshot {
        GrowingTables tables;
        MetricsAttributes attributes;
        int64_t changes = 0;
    };
    Snapshot snapshot() const;
    void load(const MetricsResume& resume);

    const RunFiles files_;
    std::string configuration_before_;
    mutable std::mutex mutex_;  // of the next four
    GrowingTables tables_;
    MetricsAttributes attributes_;
    int64_t changes_ = 0;  // counts them
    Redaction redaction_;
    mutable std::mutex writing_;  // of what follows; taken before mutex_
    MetricsLines lines_;
    int64_t published_ = -1, in_lines_ = -1;  // the count of changes that each file has
};

}  // namespace convoy
