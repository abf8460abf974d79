// Files that are written into a held folder.
#pragma once
#include <string>

#include "base/descriptor.h"
#include "base/held_folder.h"

namespace convoy {

/// Makes a new file in place of the one that has this name. A link is not followed, and what else
/// has the old file as a hard link keeps it. Throws Exit::io.
Descriptor create_in(const HeldFolder& folder, const std::string& name);
/// Replaces a file by this text. It survives a crash: a reader sees the old file or the new one.
/// Throws Exit::io, and has then changed nothing.
void replace_in(const HeldFolder& folder, const std::string& name, const std::string& text);
/// Returns `count` unpredictable letters and digits.
std::string random_name(size_t count);

}  // namespace convoy
