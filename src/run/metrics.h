// The measurements of one run, kept by rank 0: RUN/metrics.h5 (tables for analysis) and
// RUN/metrics.jsonl (for tail -f). publish() rebuilds metrics.h5 in memory and renames it into
// place, so that it can be opened at any moment, even after kill -9. Adding a row only stores it;
// write_lines() and publish() write it to the files.
#pragma once
#include <mutex>
#include <optional>
#include <string>

#include "base/redaction.h"
#include "run/metrics_file.h"
#include "run/metrics_lines.h"
#include "run/metrics_rows.h"
#include "train/run_files.h"

namespace convoy {

/// The point from which a run resumes. Later rows are dropped, because they will be computed again.
struct MetricsResume {
    int64_t step = 0;             ///< optimizer steps done by the checkpoint
    int64_t epochs_done = 0;      ///< epochs completed at that step
    bool evaluation_due = false;  ///< the evaluation at `step` will be repeated
};

/// Returns the number of steps per row of /train: `wanted` if above 0, else 1 for runs of up to a
/// million steps. For longer runs it is the least number that gives at most a million rows, which
/// are 72 MB. Other tables have all their rows.
constexpr int64_t steps_between_rows(int64_t total_steps, int64_t wanted = 0) {
    if (wanted > 0) return wanted;
    constexpr int64_t most_rows = 1'000'000;
    return total_steps <= most_rows ? 1 : (total_steps + most_rows - 1) / most_rows;
}
/// Returns the bytes that both files of a run take, with a new metrics.h5 next to the old one.
size_t bytes_of_metrics(int64_t train_rows, int64_t epochs, int64_t ranks);

/// Any thread may call these functions. Those that add rows never wait for the disk.
class Metrics {
public:
    /// Starts the two files in `run_dir`. A new run publishes empty tables at once, so that
    /// metrics.h5 exists from the start. With `resume`, keeps all events, and the other rows of
    /// metrics.h5 up to that point; /ranks and the attributes of /run start empty. metrics.jsonl
    /// only grows, so a repeated step occurs in it twice. Throws
    /// - Exit::io if the folder cannot be written,
    /// - Exit::usage without `resume` if the folder holds a metrics.h5,
    /// - Exit::bad_input if the metrics.h5 to continue is damaged.
    explicit Metrics(const RunFiles& run_dir, std::optional<MetricsResume> resume = std::nullopt);

    /// Sets an attribute of /run (configuration, command line, versions). A second value for a name
    /// replaces the first.
    void run_attribute(const std::string& name, MetricsValue value);

    template <class Row> void add(const Row& row) {
        const std::lock_guard lock(mutex_);
        std::get<Rows<Row>>(tables_).push_back(row);
        ++changes_;
    }
    /// Appends to /events with the current time, in UTC. metrics.jsonl has the event's kind in the
    /// key "event".
    void event(int64_t step, const std::string& kind, const std::string& message);

    /// Makes later events omit what `Redaction` removes.
    void redact(const Redaction&);
    /// Returns the options of the earlier start whose rows were kept, as config_text() writes them;
    /// empty if there was none.
    const std::string& configuration_before() const { return configuration_before_; }

    /// Drops the rows after this point, because the run continues from there. Events stay.
    void go_back(const MetricsResume& to);

    /// Returns true if a change is not in metrics.h5 yet.
    bool changed() const;
    /// Appends new rows to metrics.jsonl. Throws Exit::io; a later call then writes the rest.
    void write_lines();
    /// Writes everything to both files. Throws Exit::io naming the file (disk full, folder gone).
    /// The old metrics.h5 then stays unchanged, and a later call may succeed.
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
    mutable std::mutex mutex_;  // guards the next four
    GrowingTables tables_;
    MetricsAttributes attributes_;
    int64_t changes_ = 0;  // number of changes so far
    Redaction redaction_;
    mutable std::mutex writing_;  // guards the rest; locked before mutex_
    MetricsLines lines_;
    int64_t published_ = -1, in_lines_ = -1;  // changes_ when each file was written
};

}  // namespace convoy
