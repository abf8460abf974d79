// Files that are written into a held folder.
#pragma once
#include <string>

#include "base/descriptor.h"
#include "base/held_folder.h"

namespace convoy {

/// Throws Exit::io if a file is a link or has several names. In a folder from another person, the
/// name may lead to any file of this user. Convoy would copy that file's content into the folder.
void check_has_one_name(const HeldFolder& folder, const std::string& name);
/// Opens or makes a file for lock_file(). Only its owner may read it, because any reader could lock
/// it, too. Throws Exit::io.
Descriptor open_lock(const HeldFolder& folder, const std::string& name);
/// Replaces a file by this text. After a crash, a reader sees the old file or the new one. Throws
/// Exit::io on failure; the old file then stays, unless only the sync of the folder failed.
void replace_in(const HeldFolder& folder, const std::string& name, const std::string& text);
/// Returns `count` unpredictable letters and digits.
std::string random_name(size_t count);

}  // namespace convoy
