// The rows of the metric files: one struct per table, and the container in which a run stores them.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace convoy {

// metrics_tables.h has the meaning and unit of each field; metrics.h5 contains them. A double that
// was not measured stays NaN (null in metrics.jsonl), never zero.

/// /train: one optimizer step, with means over the images of all ranks and the times of rank 0.
/// data_seconds and comm_exposed_seconds are parts of step_seconds; the rest is computation.
struct TrainRow {
    int64_t step = 0;   ///< optimizer steps done, from 1
    int64_t epoch = 0;  ///< the epoch the step belongs to, from 1
    double loss = NAN, accuracy = NAN, learning_rate = NAN;
    double step_seconds = NAN, data_seconds = NAN, comm_exposed_seconds = NAN;
    double top5_accuracy = NAN;
};

/// /eval: one pass over the test split.
struct EvalRow {
    int64_t step = 0, epoch = 0;
    double loss = NAN, accuracy = NAN, seconds = NAN;
    double top5_accuracy = NAN;
};

/// /epochs: the training in one completed epoch, without its evaluation. For a resumed epoch, only
/// the part after the restart.
struct EpochRow {
    int64_t epoch = 0;   ///< from 1
    int64_t images = 0;  ///< fewer than an epoch has if the run was resumed within it
    double seconds = NAN, images_per_second = NAN;
    /// means over the images, from the steps that trained on them
    double loss = NAN, accuracy = NAN, top5_accuracy = NAN;
};

/// /ranks: the ranks since the run was last resumed.
struct RankRow {
    int64_t rank = 0;
    std::string host, device;
    int64_t threads = 0;
    std::string placement{};
    /// the logical ranks that the rank computes (--virtual-ranks); without them, the rank itself
    int64_t first_logical_rank = 0, logical_ranks = 1;
};

/// /rank_epochs: the time of one rank in one epoch, in three parts. An all-reduce makes the wall
/// times of all ranks equal. A slow rank therefore shows only here: it computes longer and waits
/// less than the others. Loss and accuracy are those of the rank's own images.
struct RankEpochRow {
    int64_t epoch = 0, rank = 0;
    double data_seconds = NAN, compute_seconds = NAN, collective_wait_seconds = NAN;
    int64_t images = 0;
    double loss = NAN, accuracy = NAN;
};

/// /system: use of a rank's device and process, averaged over one second in the first minute, then
/// over ten seconds.
struct SystemRow {
    double time = NAN;  ///< time of the last sample, in seconds since 1970-01-01 UTC
    int64_t rank = 0;
    double utilisation = NAN, memory_bytes = NAN, power_watts = NAN, clock_hz = NAN, temperature_celsius = NAN;
};

/// /events: start, restart, checkpoint, warning, stop, done and others. Metrics::event() adds them.
struct EventRow {
    double time = NAN;  ///< seconds since 1970-01-01 UTC
    std::string iso_time;
    int64_t step = 0;
    std::string kind, message;
};

/// The rows of one table, to which rows are appended. A copy is a snapshot for another thread; it
/// shares all chunks but the last.
template <class Row> class Rows {
public:
    Rows() = default;
    explicit Rows(const std::vector<Row>& rows) {
        for (const Row& row : rows) push_back(row);
    }
    Rows(const Rows& other) : size_(other.size_), chunks_(other.chunks_) { own_last_chunk(); }
    Rows(Rows&&) = default;
    Rows& operator=(Rows&&) = default;

    size_t size() const { return size_; }
    const Row& operator[](size_t i) const { return (*chunks_[i / chunk_rows])[i % chunk_rows]; }

    void push_back(const Row& row) {
        if (size_ % chunk_rows == 0) chunks_.push_back(std::make_shared<std::vector<Row>>());
        chunks_.back()->push_back(row);
        ++size_;
    }
    /// Drops the rows from `size` on.
    void truncate(size_t size) {
        if (size >= size_) return;
        size_ = size;
        chunks_.resize((size + chunk_rows - 1) / chunk_rows);
        own_last_chunk();
        if (!chunks_.empty()) chunks_.back()->resize(size - (chunks_.size() - 1) * chunk_rows);
    }

private:
    static constexpr size_t chunk_rows = 4096;
    /// Copies the last chunk, so that it is no longer shared and may be changed. Full chunks never
    /// change.
    void own_last_chunk() {
        if (!chunks_.empty()) chunks_.back() = std::make_shared<std::vector<Row>>(*chunks_.back());
    }

    size_t size_ = 0;
    std::vector<std::shared_ptr<std::vector<Row>>> chunks_;
};

/// `Of`<Row> for each table, in the order in which they are written.
template <template <class...> class Of>
using EachTable =
    std::tuple<Of<TrainRow>, Of<EvalRow>, Of<EpochRow>, Of<RankRow>, Of<RankEpochRow>, Of<SystemRow>, Of<EventRow>>;
/// The tables of an active run.
using GrowingTables = EachTable<Rows>;

}  // namespace convoy
