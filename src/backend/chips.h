// GPUs that a dry run knows even if they are absent. All of them are on boards with NVLink.
// cuda/chips.cpp has what cuDNN must be told about them.
#pragma once
#include <string>

#include "base/error.h"

namespace convoy {

struct Chip {
    const char *name, *title;
    size_t memory;  ///< bytes, as in cudaDeviceProp::totalGlobalMem
    int multiprocessors;
};
inline constexpr Chip known_chips[] = {{"h100", "NVIDIA H100 80GB HBM3", 85'520'809'984, 132},
                                       {"a100", "NVIDIA A100-SXM4-80GB", 85'097'971'712, 108}};

/// Finds a chip by name. Throws Exit::usage for an unknown one; `another` names what else is
/// allowed.
inline const Chip& find_chip(const std::string& name, const std::string& another = "") {
    std::string names;
    for (const Chip& c : known_chips) {
        if (name == c.name) return c;
        names += (names.empty() ? "" : " or ") + std::string(c.name);
    }
    fail(Exit::usage, "--chip " + name + " is unknown; choose " + names + (another.empty() ? "" : " or " + another));
}

}  // namespace convoy
