// What a job will ask of cuDNN on a chip, as a table: for `convoy info --plans`, on any machine.
#pragma once
#include <string>

#include "backend/gpu/plan_list.h"

namespace convoy::cuda {

struct PlanRow {
    NamedPlan plan;
    int candidates = 0;
    enum State {
        built,    ///< the first candidate that is supported
        listed,   ///< cuDNN lists engines, but they compile for the device and so cannot be built without its driver
        missing,  ///< no engine: the fallback runs
    } state = missing;
    std::string engine;
    size_t workspace = 0;  ///< bytes, if built
    std::string fallback;  ///< what runs instead of a missing or a slower plan; empty if nothing can
};

std::vector<PlanRow> plan_rows(const std::vector<NamedPlan>&, const std::string& chip);
std::string text_of(const std::vector<PlanRow>&);

}  // namespace convoy::cuda
