// Makes all ranks of a job use the same plans: some ranks measure for the others. Checkpoints store
// the choices as text.
#pragma once
#include "backend/cuda/plans.h"
#include "comm/comm.h"

namespace convoy::cuda {

/// Choices by kind of device: its name and cuDNN's version.
using DeviceChoices = std::map<std::string, PlanChoices>;
/// Formats choices: for each kind of device a line "[device]", then lines as in the cache file.
std::string text_of(const DeviceChoices&);
/// Parses the text of text_of().
DeviceChoices parse_device_choices(const std::string& text);

/// A barrier for work that takes some ranks minutes while the others wait. All ranks meet in a
/// collective every 2 s meanwhile, so that no rank seems to hang.
class Meetings {
public:
    explicit Meetings(Comm& comm) : comm_(comm) {}
    /// Call it often while working. Meets the other ranks if 2 s have passed since the last
    /// meeting. Returns the seconds spent waiting.
    double attend();
    /// Call it when the work is done. Blocks until all ranks are done.
    void conclude();

private:
    Comm& comm_;
    Clock::time_point last_ = Clock::now();
};

}  // namespace convoy::cuda
