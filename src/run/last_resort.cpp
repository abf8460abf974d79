#include "run/last_resort.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "comm/launcher.h"
#include "run/signals.h"

namespace convoy {
namespace {

constexpr double look = 0.02;  // seconds between two looks at the signals

/// Returns the seconds that a training has to end by itself: with mpirun a quarter of the time from
/// its SIGTERM to its SIGKILL, else 0.25.
double patience(bool of_mpirun) {
    const Grace grace = launcher_grace();
    return of_mpirun ? (grace.to_kill - grace.to_term) / 4 : 0.25;
}

}  // namespace

LastResort::LastResort(Comm& comm, const Trainer& trainer, Requests& requests, Actions actions)
    : comm_(comm), trainer_(trainer), requests_(requests), actions_(std::move(actions)) {
    if (comm_.root()) thread_ = std::thread([this] { watch(); });
}

LastResort::~LastResort() {
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

bool LastResort::wait(double seconds) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; }) &&
           !trainer_.stopped();
}

void LastResort::watch() {
    while (wait(look)) {
        try {
            if (const char* signal = ending_signal()) return end(signal);
            if (!take_continued()) continue;
            of_mpirun_ = true;
            before_the_end();
        } catch (const std::exception&) {
            return;  // no memory for a copy: the checkpoint on disk must suffice
        }
    }
}

void LastResort::before_the_end() {
    if (!trainer_.snapshot_step())
        requests_.checkpoint = 1;  // no snapshots, as steps are short: asks for a checkpoint after this step
    else if (std::optional<Checkpoint> c = trainer_.snapshot(actions_.saved_step()))
        save(std::move(*c));
}

bool LastResort::save(Checkpoint&& c) {
    actions_.pause(launcher_grace().to_kill);
    const bool saved = actions_.save(std::move(c));
    actions_.pause(0);
    return saved;
}

void LastResort::end(const std::string& signal) {
    if (!wait(patience(of_mpirun_))) return;
    do {
        const int64_t saved = actions_.saved_step();
        int64_t step = saved;
        if (std::optional<Checkpoint> c = trainer_.snapshot(saved)) {
            step = c->step;
            if (!save(std::move(*c))) return;
        } else if (trainer_.snapshot_step() != saved) {
            continue;  // steps are short, so no snapshot is kept, or an update is in progress
        }
        if (!wait(0)) return;
        actions_.say(signal, step);
        if (of_mpirun_) {  // mpirun will end all ranks; an abort would only add messages
            const double seconds = 2 * launcher_grace().to_kill;
            actions_.pause(seconds);
            if (!wait(seconds)) return;
        }
        comm_.abort(Exit::requeue, "ended by " + signal +
                                       " before a step or an evaluation had ended; the checkpoint is that of step " +
                                       std::to_string(step));
    } while (wait(look));
}

}  // namespace convoy
