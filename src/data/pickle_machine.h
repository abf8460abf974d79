// Runs a pickle: what data/pickle.h then looks up.
#pragma once
#include "data/pickle.h"

namespace convoy {

/// Appends all values to `nodes`, and returns the index of the dict that the pickle is. Texts that
/// are not in `bytes` as they are go to `decoded`. Errors as of Pickle's constructor.
uint32_t run_pickle(std::span<const uint8_t> bytes, const std::string& where, std::vector<PickleNode>& nodes,
                    std::deque<std::string>& decoded);

}  // namespace convoy
