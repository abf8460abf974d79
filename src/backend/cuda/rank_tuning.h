// Makes ranks with the same kind of GPU use the same plans: some ranks measure for the others.
// Checkpoints store the tuned plans as text.
#pragma once
#include "backend/cuda/plans.h"
#include "comm/comm.h"

namespace convoy::cuda {

/// Tuned plans by kind of device: its name and cuDNN's version.
using TunedDevices = std::map<std::string, TunedPlans>;
/// Formats tuned plans: for each kind of device a line "[device]", then lines as in the cache file.
std::string text_of(const TunedDevices&);
/// Parses the text of text_of().
TunedDevices parse_tuned_devices(const std::string& text);

/// A barrier for work that takes some ranks minutes while the others wait. All ranks meet in a
/// collective every 2 s meanwhile, so that no rank seems to hang.
class TuningBarrier {
public:
    explicit TuningBarrier(Comm& comm) : comm_(comm) {}
    /// Call it often while working. Takes part in a collective if 2 s have passed since the last
    /// one. Returns the seconds spent waiting.
    double keep_alive();
    /// Call it when the work is done. Blocks until all ranks are done.
    void finish();

private:
    Comm& comm_;
    Clock::time_point last_ = Clock::now();
};

}  // namespace convoy::cuda
