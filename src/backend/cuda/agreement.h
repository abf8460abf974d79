// One choice of plans for all ranks of a job: what ranks measure for one another, and the text in
// which checkpoints keep it.
#pragma once
#include "backend/cuda/plans.h"
#include "comm/comm.h"

namespace convoy::cuda {

/// By kind of device: its name and cuDNN's version.
using DeviceChoices = std::map<std::string, PlanChoices>;
/// "[device]", then lines as of the cache file.
std::string text_of(const DeviceChoices&);
DeviceChoices parse_device_choices(const std::string& text);

/// Some ranks measure or build, for minutes, and the others wait for them: all meet every other
/// second meanwhile, so that no rank seems to hang.
class Meetings {
public:
    explicit Meetings(Comm& comm) : comm_(comm) {}
    /// Of a rank at work, as often as it likes. Seconds that it waited for others at work.
    double attend();
    /// Of a rank that has done its work: returns when all have.
    void conclude();

private:
    Comm& comm_;
    Clock::time_point last_ = Clock::now();
};

}  // namespace convoy::cuda
