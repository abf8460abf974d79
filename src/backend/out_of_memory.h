// Classifies failures of a backend's libraries.
#pragma once
#include <exception>

namespace convoy {

/// Returns true if oneDNN reports that memory did not suffice.
bool is_out_of_memory(const std::exception&);

}  // namespace convoy
