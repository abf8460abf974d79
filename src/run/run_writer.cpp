#include "run/run_writer.h"

#include <algorithm>
#include <exception>

namespace convoy {
namespace {

/// Publishing takes at most 1/shares of the time, even if metrics are large or the disk is slow.
constexpr double shares = 50;

Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

RunWriter::RunWriter(Settings settings, const State& state, Metrics& metrics)
    : settings_(std::move(settings)),
      state_(state),
      metrics_(metrics),
      next_publish_(after(settings_.publish_every)),
      thread_([this] { run(); }) {}

RunWriter::~RunWriter() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void RunWriter::write(Checkpoint checkpoint) {
    const Clock::time_point since = Clock::now();
    std::unique_lock lock(mutex_);
    advanced_.wait(lock, [&] { return !next_; });
    next_ = Task{std::move(checkpoint), since};
    wake_.notify_all();
}

void RunWriter::wait_for_room() {
    std::unique_lock lock(mutex_);
    advanced_.wait(lock, [&] { return !next_; });
}

void RunWriter::wait() {
    std::unique_lock lock(mutex_);
    advanced_.wait(lock, [&] { return !next_ && !writing_; });
}

std::vector<RunWriter::Written> RunWriter::written() {
    const std::lock_guard lock(mutex_);
    return std::exchange(written_, {});
}

std::vector<std::string> RunWriter::metrics_changes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(metrics_changes_, {});
}

void RunWriter::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait_until(lock, after(settings_.lines_every), [&] { return next_ || ending_; });
        if (next_) {
            const Task task = std::move(*next_);
            next_.reset();
            writing_ = true;
            advanced_.notify_all();
            lock.unlock();
            Written written = finish(task);
            lock.lock();
            written_.push_back(std::move(written));
            writing_ = false;
            advanced_.notify_all();
        } else if (ending_) {
            return;
        } else {
            lock.unlock();
            write_due_metrics();
            lock.lock();
        }
    }
}

RunWriter::Written RunWriter::finish(const Task& task) {
    publish();
    const Checkpoint& c = task.checkpoint;
    Written written{c.step, c.only_model ? "" : checkpoint_path(settings_.run_dir.path(), c.step)};
    if (!c.only_model) try {
            write_checkpoint({settings_.run_dir.checkpoints(), checkpoint_name(c.step)}, c, state_);
            written.seconds = seconds_since(task.since);
            newest_ = std::max<int64_t>(newest_, c.step);
            prune_checkpoints(settings_.run_dir, settings_.keep, c);
        } catch (const std::exception& error) {
            written.failure = error.what();
        }
    try {
        if (c.is_best()) save_model(settings_.run_dir.place(best_model_name), c, state_);
    } catch (const std::exception& error) {
        written.model_failure = error.what();
    }
    return written;
}

void RunWriter::write_due_metrics() {
    if (Clock::now() >= next_publish_) {
        if (metrics_.changed()) publish();
        return;
    }
    try {
        metrics_.write_lines();
    } catch (const std::exception& error) {
        note_metrics(error.what());
    }
}

void RunWriter::publish() {
    const Clock::time_point start = Clock::now();
    std::string failure;
    try {
        metrics_.publish();
    } catch (const std::exception& error) {
        failure = error.what();
    }
    note_metrics(failure);
    next_publish_ = after(std::max(settings_.publish_every, shares * seconds_since(start)));
}

void RunWriter::note_metrics(const std::string& failure) {
    const std::lock_guard lock(mutex_);
    if (metrics_fail_ == !failure.empty()) return;
    metrics_fail_ = !failure.empty();
    metrics_changes_.push_back(failure);
}

}  // namespace convoy
