// GPUs that a dry run knows without having them, all of boards that NVLink links. What cuDNN must
// be told of them is in cuda/chips.cpp.
#pragma once
#include <string>

#include "base/error.h"

namespace convoy {

struct Chip {
    const char *name, *title;
    size_t memory;  ///< bytes, as cudaDeviceProp::totalGlobalMem
    int multiprocessors;
};
inline constexpr Chip known_chips[] = {{"h100", "NVIDIA H100 80GB HBM3", 85'520'809'984, 132},
                                       {"a100", "NVIDIA A100-SXM4-80GB", 85'097'971'712, 108}};

/// Throws Exit::usage for a name that is not known. `another`: what may be named besides these.
inline const Chip& find_chip(const std::string& name, const std::string& another = "") {
    std::string names;
    for (const Chip& c : known_chips) {
        if (name == c.name) return c;
        names += (names.empty() ? "" : " or ") + std::string(c.name);
    }
    fail(Exit::usage, "--chip " + name + " is unknown; choose " + names + (another.empty() ? "" : " or " + another));
}

}  // namespace convoy
