#include "run/metrics.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <type_traits>

#include "base/durable.h"
#include "base/error.h"
#include "base/held_file.h"

namespace convoy {
namespace {

constexpr const char* tables_name = "metrics.h5";

/// Returns true if a row of the earlier run is valid at the point from which the run resumes.
template <class Row> bool keeps(const Row& row, const MetricsResume& resume) {
    if constexpr (std::is_same_v<Row, EventRow>)
        return true;
    else if constexpr (std::is_same_v<Row, EvalRow>)
        return row.step < resume.step || (row.step == resume.step && !resume.evaluation_due);
    else if constexpr (requires { row.step; })
        return row.step <= resume.step;
    else if constexpr (requires { row.epoch; })
        return row.epoch <= resume.epochs_done;
    else
        return true;
}

/// Drops the rows that are no longer valid. They are at the end, because steps and epochs increase.
template <class Row> void drop_after(const MetricsResume& resume, Rows<Row>& rows) {
    size_t size = rows.size();
    while (size > 0 && !keeps(rows[size - 1], resume)) --size;
    rows.truncate(size);
}

void drop_after(const MetricsResume& resume, GrowingTables& tables) {
    std::apply([&](auto&... rows) { (drop_after(resume, rows), ...); }, tables);
}

}  // namespace

size_t bytes_of_metrics(int64_t train_rows, int64_t epochs, int64_t ranks) {
    constexpr int64_t most_epochs = 70'000;  // a run with more will end by a time limit
    constexpr int64_t structure = 1 << 16;
    constexpr int64_t train = 2 * sizeof(TrainRow), train_line = 245;
    constexpr int64_t epoch = 2 * (sizeof(EpochRow) + sizeof(EvalRow)) + 260;  // 260: bytes of an epoch's lines
    constexpr int64_t rank_epoch = 2 * sizeof(RankEpochRow) + 160;
    const int64_t stored_rows = train_rows + std::min(train_rows, metrics_chunk_rows);
    return size_t(structure + train * stored_rows + train_line * train_rows +
                  (epoch + rank_epoch * ranks) * std::min(epochs, most_epochs));
}

Metrics::Metrics(const RunFiles& run_dir, std::optional<MetricsResume> resume) : files_(run_dir), lines_(run_dir) {
    if (const HeldPlace place = files_.place(tables_name); place.folder().has(tables_name)) {
        if (!resume)
            fail(Exit::usage, place.shown() + ": belongs to another run; resume that run, or choose a new folder");
        load(*resume);
    }
    write_lines();  // before metrics.h5 exists, so that the folder does not look like a run's if this fails
    publish();
}

void Metrics::load(const MetricsResume& resume) {
    const HeldPlace place = files_.place(tables_name);
    check_has_one_name(place.folder(), tables_name);
    const MetricsFile file = place.folder().named([&] { return read_metrics(place.path()); });
    if (const auto found = file.run.find("configuration"); found != file.run.end())
        configuration_before_ = found->second;
    std::apply([&](const auto&... rows) { tables_ = GrowingTables(Rows(rows)...); }, file.tables);
    drop_after(resume, tables_);
    std::get<Rows<RankRow>>(tables_) = {};  // this start adds its own ranks
    lines_.set_written(tables_);
}

void Metrics::run_attribute(const std::string& name, MetricsValue value) {
    const std::lock_guard lock(mutex_);
    const auto same_name = [&](const auto& entry) { return entry.first == name; };
    const auto known = std::find_if(attributes_.begin(), attributes_.end(), same_name);
    if (known == attributes_.end())
        attributes_.emplace_back(name, std::move(value));
    else
        known->second = std::move(value);
    ++changes_;
}

void Metrics::event(int64_t step, const std::string& kind, const std::string& message) {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char iso[32] = "";
    std::strftime(iso, sizeof iso, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const std::string shown = [&] {
        const std::lock_guard lock(mutex_);
        return redaction_(message);
    }();
    add(EventRow{std::chrono::duration<double>(now.time_since_epoch()).count(), iso, step, kind, shown});
}

void Metrics::redact(const Redaction& redaction) {
    const std::lock_guard lock(mutex_);
    redaction_ = redaction;
}

void Metrics::go_back(const MetricsResume& to) {
    const std::lock_guard writing(writing_);
    const std::lock_guard lock(mutex_);
    drop_after(to, tables_);
    lines_.forget_after(tables_);
    ++changes_;
}

bool Metrics::changed() const {
    const std::lock_guard writing(writing_);
    const std::lock_guard lock(mutex_);
    return changes_ != published_;
}

Metrics::Snapshot Metrics::snapshot() const {
    const std::lock_guard lock(mutex_);
    return {tables_, attributes_, changes_};
}

void Metrics::write_lines() {
    const std::lock_guard writing(writing_);
    const Snapshot now = snapshot();
    if (now.changes == in_lines_) return;
    lines_.write(now.tables);
    in_lines_ = now.changes;
}

void Metrics::publish() {
    const std::lock_guard writing(writing_);
    const Snapshot now = snapshot();
    std::exception_ptr missing_lines;
    try {
        lines_.write(now.tables);
        in_lines_ = now.changes;
    } catch (const Error&) {
        missing_lines = std::current_exception();  // thrown later: there may still be room for metrics.h5
    }
    const HeldPlace place = files_.place(tables_name);
    replace_run_file(place, metrics_image(now.tables, now.attributes, place.shown()));
    if (missing_lines) std::rethrow_exception(missing_lines);
    published_ = now.changes;
}

}  // namespace convoy
