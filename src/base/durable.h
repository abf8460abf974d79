// Files that survive a crash: written next to their place, synced, renamed. A reader sees the old
// file or the new one, never half.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "base/held_place.h"

namespace convoy {

/// Throws Exit::io: "PATH: cannot be written: REASON; …", the reason from errno.
[[noreturn]] void cannot_write(const std::string& path);
/// Opens or makes a file; `flags` as of open(2). A link is not followed: another user may have put
/// it there. Throws Exit::io.
int open_to_write(const std::string& path, int flags);
/// Replaces the file of this name by a new one. Does not follow a link or wait for a pipe. Other
/// hard links to the old file keep it. Throws Exit::io.
int create_to_write(const std::string& path);
/// Takes the file for this process until it is closed, also by kill -9; false if another process
/// has it. True where the file system has no locks; errno is then why, and else 0.
bool lock_file(int fd);
/// write(2) until all is written; false with errno set if it cannot.
bool write_all(int fd, const void* data, size_t size);
/// Makes the parent folder of `path` if it is missing. Ignores failures, because opening the file
/// will then fail.
void make_folder_of(const std::string& path);
/// Replaces a file by these bytes. On failure it stays as it was and no temporary file is left.
/// Throws Exit::io.
void replace_file(const HeldPlace&, const std::vector<unsigned char>& bytes);
/// Syncs the finished file NAME.partial and renames it to NAME. Throws Exit::io, and removes
/// NAME.partial.
void publish_file(const HeldPlace&);

}  // namespace convoy
