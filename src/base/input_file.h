// Reads files from users. Every file is checked first: a pipe may never deliver, a device may never
// end, and a file may be larger than memory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// Returns the size of a regular file in bytes. Throws Exit::bad_input, with `advice` at the end,
/// for pipes, folders and devices. Throws Inaccessible (base/file_error.h) if stat() fails.
uint64_t size_of_input(const std::string& path, const std::string& advice);

/// Returns `text` with the line ends of Unix, and without the byte order marks that editors on
/// Windows write. They may begin any line, because people concatenate such files. Throws
/// Exit::bad_input for UTF-16 and UTF-32, in a message with `where` and `advice`.
std::string plain_text(std::string text, const std::string& where, const std::string& advice);

/// Whether pipes and devices are read. A pipe that delivers nothing is always refused. So is a pipe
/// of another user, unless that is root.
enum class Pipes { refused, read };

/// Returns all of a text file, converted by plain_text(). The file that is read is the one that was
/// checked, even if another file takes its path. Throws Exit::bad_input, with `advice` at the end,
/// also for more than `most` bytes. Throws Inaccessible if it cannot be opened or read. All text
/// that users write is read by this function.
std::string text_of_input(const std::string& path, size_t most, const std::string& advice,
                          Pipes pipes = Pipes::refused);

/// Returns the lines of a text file without trailing blanks: line n is element n - 1. Throws as
/// text_of_input() does, and Exit::bad_input for a zero byte.
std::vector<std::string> lines_of_input(const std::string& path, size_t most, const std::string& advice);

/// Returns the text of a settings file (`kind`: "recipe") of at most 1 MiB. Throws Exit::bad_input,
/// with `advice` at the end, also for control characters, so that no binary file is parsed or
/// printed.
std::string config_of_input(const std::string& path, const std::string& kind, const std::string& advice,
                            Pipes pipes = Pipes::refused);

}  // namespace convoy
