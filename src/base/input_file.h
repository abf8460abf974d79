// Files from elsewhere, looked at before they are read: a pipe may never begin, a device never end,
// and a file be larger than memory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// Bytes of a regular file. Throws Exit::bad_input, ending with `advice`, if there is none: also
/// for pipes and devices. Throws Inaccessible (base/file_error.h) if it cannot be looked at.
uint64_t size_of_input(const std::string& path, const std::string& advice);

/// Returns `text` with the line ends of Unix, and without the byte order marks that editors on
/// Windows put before UTF-8 (at the start of any line, because people join such files). Throws
/// Exit::bad_input for UTF-16 and UTF-32: "WHERE: is …; ADVICE".
std::string plain_text(std::string text, const std::string& where, const std::string& advice);

/// Returns all of a text file or pipe, as plain_text() does. Throws Exit::bad_input, ending with
/// `advice`, also for more than `most` bytes; Inaccessible if it cannot be opened or read. All text
/// that users write is read here.
std::string text_of_input(const std::string& path, size_t most, const std::string& advice);

/// Returns the lines of a text file without the blanks at their ends: line n is element n - 1.
/// Throws as text_of_input() does, also for a zero byte.
std::vector<std::string> lines_of_input(const std::string& path, size_t most, const std::string& advice);

/// Returns a file of settings (`kind`: "recipe") of at most 1 MiB. Throws Exit::bad_input, ending
/// with `advice`, also for what is no text, before anything of it is parsed or printed.
std::string config_of_input(const std::string& path, const std::string& kind, const std::string& advice);

}  // namespace convoy
