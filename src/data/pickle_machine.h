// Runs a pickle's program, and so builds the values that data/pickle.h looks up.
#pragma once
#include "data/pickle.h"

namespace convoy {

/// Appends all values to `nodes`, and returns the index of the outermost dict. Texts that must be
/// decoded go to `decoded`. Throws as Pickle's constructor does.
uint32_t run_pickle(std::span<const uint8_t> bytes, const std::string& where, std::vector<PickleNode>& nodes,
                    std::deque<std::string>& decoded);

}  // namespace convoy
