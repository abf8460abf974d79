// What a failure of a backend's libraries means.
#pragma once
#include <exception>

namespace convoy {

/// Whether oneDNN says that memory did not suffice.
bool is_out_of_memory(const std::exception&);

}  // namespace convoy
