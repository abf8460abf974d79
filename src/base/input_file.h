// Files from elsewhere, looked at before they are read: a pipe may never begin, a device never end,
// and a file be larger than memory.
#pragma once
#include <cstdint>
#include <string>

namespace convoy {

/// Bytes of a regular file. Throws Exit::bad_input, ending with `advice`, if there is none: also
/// for pipes and devices.
uint64_t size_of_input(const std::string& path, const std::string& advice);

/// All of a file or pipe that holds at most `most` bytes. Throws Exit::bad_input, ending with
/// `advice`.
std::string text_of_input(const std::string& path, size_t most, const std::string& advice);

/// The lines of a file that people write (`kind`: "recipe"), at most 1 MiB, without the byte order
/// mark that editors on Windows put before UTF-8. Throws Exit::bad_input, ending with `advice`,
/// also for what is no text, before anything of it is parsed or printed.
std::string config_of_input(const std::string& path, const std::string& kind, const std::string& advice);

}  // namespace convoy
