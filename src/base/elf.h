// Which shared libraries a program or a shared object asks the loader for.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// The names under DT_NEEDED, in order; empty if the file is no 64-bit ELF file, or a damaged one.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace convoy
