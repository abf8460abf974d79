// GPUs that dry runs and `info --plans` know even if they are absent. cuda/chips.cpp has what cuDNN
// must be told about them.
#pragma once
#include <string>

namespace convoy {

struct Chip {
    const char *name, *title;
    size_t memory;  ///< bytes, as in cudaDeviceProp::totalGlobalMem
    int multiprocessors;
    int capability;  ///< compute capability, 10 * major + minor
    bool nvlink;     ///< true: NVLink links the boards of a node; false: PCI Express
};
// All but four rows are OpenXLA's target_config/specs, read off such GPUs. P40, 2080 Ti and L40S:
// what deviceQuery prints on them. H200: what PyTorch prints, in MiB.
inline constexpr Chip known_chips[] = {{"p100", "Tesla P100-SXM2-16GB", 17'066'885'120, 56, 60, true},
                                       {"p40", "Tesla P40", 24'032'378'880, 30, 61, false},
                                       {"v100", "Tesla V100-SXM2-16GB", 16'935'682'048, 80, 70, true},
                                       {"rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", 11'554'717'696, 68, 75, false},
                                       {"a100", "NVIDIA A100-SXM4-80GB", 85'100'068'864, 108, 80, true},
                                       {"l40s", "NVIDIA L40S", 47'576'711'168, 142, 89, false},
                                       {"h100", "NVIDIA H100 80GB HBM3", 84'942'979'072, 132, 90, true},
                                       {"h200", "NVIDIA H200", size_t(143'156) << 20, 132, 90, true},
                                       {"b200", "NVIDIA B200", 191'514'411'008, 148, 100, true}};

/// Returns "p100, p40 ... or b200", with `another` at the end if it is not empty.
std::string chip_names(const char* another = "");
/// Finds a chip by name. Throws Exit::usage for an unknown one; `another` names what else is
/// allowed.
const Chip& find_chip(const std::string& name, const char* another = "");

}  // namespace convoy
