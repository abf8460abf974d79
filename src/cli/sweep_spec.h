// The trainings of `convoy sweep`: every combination of the values to try.
#pragma once
#include <string>
#include <vector>

#include "cli/help.h"

namespace convoy {

struct SweepRun {
    std::string name;               ///< name of the run's folder: "lr-0.01,batch-size-32"
    std::vector<std::string> args;  ///< arguments of `convoy train`
};

struct SweepSpec {
    std::string output;  ///< the folder that holds the runs' folders
    int64_t ranks = 0;   ///< ranks of each training; 0: one, without mpirun
    bool trains = true;  ///< false: --dry-run
    std::vector<SweepRun> runs;
    /// the arguments of the sweep without its --output
    std::vector<std::string> args;
};

/// Parses the arguments of `convoy sweep`: OPTION=VALUE,VALUE..., and options of train. The last
/// OPTION changes fastest. `folder` replaces a missing --output. Throws Exit::usage for anything
/// that a training would refuse before it reads data.
SweepSpec parse_sweep(const std::vector<std::string>& args, const std::string& folder);

}  // namespace convoy
