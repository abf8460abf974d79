// Saves a run that its launcher is about to kill during a step or an evaluation batch. If OpenMPI's
// mpirun gets a SIGTERM, it sends its ranks a SIGCONT at once, then a SIGTERM and a SIGKILL
// (comm/launcher.h).
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/comm.h"
#include "train/trainer.h"

namespace convoy {

class LastResort {
public:
    struct Actions {
        /// Writes a checkpoint and waits until it is on disk; false if it could not be written.
        std::function<bool(Checkpoint&&)> save;
        /// Pauses this rank's computation for `seconds`, so that save() has the cores; 0 ends the
        /// pause.
        std::function<void(double seconds)> pause;
        /// Waits until no checkpoint is being written. Returns the step of the newest one on disk;
        /// -1: none.
        std::function<int64_t()> saved_step;
        /// Reports that this signal ended the run, and the step of its checkpoint.
        std::function<void(const std::string& signal, int64_t step)> say;
    };
    /// Starts a thread on rank 0 that watches its signals; does nothing on other ranks. All
    /// arguments but the actions must outlive this.
    LastResort(Comm&, const Trainer&, Requests&, Actions);
    ~LastResort();
    LastResort(const LastResort&) = delete;

private:
    void watch();
    /// Takes a checkpoint while there is time; the run continues.
    void before_the_end();
    bool save(Checkpoint&&);
    /// Ends the job with Exit::requeue, unless the training ends by itself first.
    void end(const std::string& signal);
    /// Waits for `seconds`. Returns false if the training has ended, or is ending by itself.
    bool wait(double seconds);

    Comm& comm_;
    const Trainer& trainer_;
    Requests& requests_;
    Actions actions_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    bool of_mpirun_ = false;  ///< true: a SIGCONT came, so a SIGTERM is likely mpirun's; watching thread only
    std::thread thread_;
};

}  // namespace convoy
