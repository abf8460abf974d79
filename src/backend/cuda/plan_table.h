// The table of `convoy info --plans`: the plans that a job will need from cuDNN on a chip. Works on
// any machine.
#pragma once
#include <string>

#include "backend/gpu/plan_list.h"

namespace convoy::cuda {

struct PlanRow {
    NamedPlan plan;
    int candidates = 0;
    enum State {
        built,    ///< `engine` is the first candidate that could be built
        listed,   ///< cuDNN lists engines, but none was built, because they compile and need the driver
        missing,  ///< there is no engine; the fallback runs
    } state = missing;
    std::string engine;
    size_t workspace = 0;  ///< bytes, if built
    std::string fallback;  ///< runs in place of a missing or slower plan; empty: the plan is needed
};

std::vector<PlanRow> plan_rows(const std::vector<NamedPlan>&, const std::string& chip);
std::string text_of(const std::vector<PlanRow>&);

}  // namespace convoy::cuda
