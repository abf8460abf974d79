// Looks into folders without exceptions. Names that are too long, links in a loop and missing
// folders are a user's mistakes, not defects of the program.
#pragma once
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace convoy {

/// Returns the paths in `folder`, unsorted. Empty, with `error` set, if it cannot be listed
/// completely.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& error);
/// Returns the names of all entries of an open folder, unsorted. Sets `error` if some may be
/// missing.
std::vector<std::string> names_in(int folder, std::error_code& error);
/// Returns the names of all entries of a folder, unsorted. Throws Inaccessible (base/file_error.h),
/// ending with `advice`, if it cannot be listed completely.
std::vector<std::string> files_in(const std::string& folder, const std::string& advice);
/// Opens the current folder, even if this user may not enter it. Returns -1, with errno set, if
/// that fails. Calls only the kernel, so that it may run before main().
int open_current_folder();
/// True if there is something at `path`. False if there is nothing, or if that cannot be known.
bool is_there(const std::filesystem::path& path);
/// Converts the exception of a std::filesystem call to an Error: the path and the reason.
Error error_at_path(const std::filesystem::filesystem_error& thrown);

}  // namespace convoy
