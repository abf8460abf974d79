// Saves a run that its launcher is about to kill in the middle of a step or an evaluation batch.
// OpenMPI's mpirun that is sent a SIGTERM sends its ranks a SIGCONT at once, a SIGTERM and a
// SIGKILL soon after (comm/launcher.h).
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
        /// Leaves the cores of this rank to save() for so long; 0: no longer.
        std::function<void(double seconds)> pause;
        /// Waits until no checkpoint is being written: steps done by the newest on disk; -1: there
        /// is none.
        std::function<int64_t()> saved_step;
        /// Says that the run was ended by this signal, with the checkpoint of this step.
        std::function<void(const std::string& signal, int64_t step)> say;
    };
    /// Watches the signals of rank 0 from now on; on other ranks it does nothing. All but the
    /// actions must outlive this.
    LastResort(Comm&, const Trainer&, Requests&, Actions);
    ~LastResort();
    LastResort(const LastResort&) = delete;

private:
    void watch();
    /// A checkpoint, as long as there is time. The run goes on.
    void before_the_end();
    bool save(Checkpoint&&);
    /// Ends the job with Exit::requeue, unless the training ends by itself first.
    void end(const std::string& signal);
    /// Waits so long; false if the training has ended or is ending by itself.
    bool pause(double seconds);

    Comm& comm_;
    const Trainer& trainer_;
    Requests& requests_;
    Actions actions_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    bool of_mpirun_ = false;  ///< a SIGCONT came, so a SIGTERM is likely mpirun's; of the watching thread
    std::thread thread_;
};

}  // namespace convoy
