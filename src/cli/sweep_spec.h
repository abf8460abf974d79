// The trainings of `convoy sweep`: every combination of the values that are to be tried.
#pragma once
#include <string>
#include <vector>

#include "cli/help.h"

namespace convoy {

struct SweepRun {
    std::string name;               ///< of its folder: "lr-0.01,batch-size-32"
    std::vector<std::string> args;  ///< of `convoy train`
};

struct SweepSpec {
    std::string output;  ///< the folder that the runs' folders are in
    int64_t ranks = 0;   ///< of each training; 0: one, without mpirun
    bool trains = true;  ///< false: --dry-run
    std::vector<SweepRun> runs;
    /// the arguments of the sweep without its --output
    std::vector<std::string> args;
};

/// Reads the arguments of `convoy sweep`: OPTION=VALUE,VALUE..., and options of train. The last
/// OPTION changes fastest. `folder` is the --output if none is given. Throws Exit::usage for what
/// any of the trainings would refuse before it reads data.
SweepSpec parse_sweep(const std::vector<std::string>& args, const std::string& folder);

}  // namespace convoy
