// Files that survive a crash: written next to their place, synced, renamed. A reader sees the old
// file or the new one, never half.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/held_place.h"

namespace convoy {

/// Throws Exit::io: "PATH: cannot be written: REASON; ADVICE", as errno determines.
[[noreturn]] void cannot_write(const std::string& path);
/// Opens or makes a file; `flags` as of open(2). A link is not followed: another user may have put
/// it there. Throws Exit::io.
int open_to_write(const std::string& path, int flags);
/// Locks the file until this process closes it or ends, also by kill -9. Returns false if another
/// process has locked it. Returns true without a lock in two cases: the file system has no
/// locks, or another process holds a read lock. Every user who may read the file can take a read
/// lock. After true, errno is 0 if this process has the lock, and else says why it has none.
bool lock_file(int fd);
/// Returns why lock_file() has returned true without a lock. `code`: the errno that it has set.
std::string why_unlocked(int code);
/// Calls pread(2) until `bytes` bytes are read or the file ends. Returns how many were read, or -1
/// with errno set.
ssize_t read_all(int fd, void* to, size_t bytes, uint64_t offset);
/// Calls write(2) until all bytes are written. Returns false, with errno set, if that fails.
bool write_all(int fd, const void* data, size_t size);
/// Makes the parent folder of `path` if it is missing. Ignores failures, because opening the file
/// will then fail.
void make_folder_of(const std::string& path);
/// Whether a new file may replace one that is already there.
enum class IfThere { replace, refuse };
/// Writes a file that the user named. Until it is complete it has an unused name, so it overwrites
/// no other file. On failure the old file stays, and no temporary file is left. Throws Exit::io on
/// failure. With IfThere::refuse, a file that has appeared at the place is also a failure.
void replace_file(const HeldPlace&, const std::vector<unsigned char>& bytes, IfThere = IfThere::replace);
/// Throws Exit::io if replace_file() could not make a file there, or if a link, a pipe or a device
/// is there. Leaves no file behind.
void check_place(const HeldPlace&);
/// Replaces a file of a run folder, as replace_file() does. Until it is complete its name is
/// NAME.partial. If this run is killed, the next one removes that file.
void replace_run_file(const HeldPlace&, const std::vector<unsigned char>& bytes);
/// Syncs the finished file NAME.partial and renames it to NAME. On failure, removes NAME.partial
/// unless it is a folder, a pipe or a device, and throws Exit::io.
void publish_file(const HeldPlace&);

}  // namespace convoy
