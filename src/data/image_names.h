// Recognizes images, archives and system files by their names.
#pragma once
#include <cstdint>
#include <string>

namespace convoy {

/// `text` with ASCII letters in lower case.
std::string lower(std::string text);
/// Whether a file's name ends in .jpg, .jpeg or .png, in any case.
bool is_image_name(const std::string& name);
/// Whether a file's name is that of an archive: .tar, .tar.gz, .zip and the like.
bool is_archive_name(const std::string& name);
/// Whether a file or folder is hidden (.git, macOS's ._x.jpg), or made by a system (__MACOSX,
/// @eaDir, lost+found).
bool is_hidden(const std::string& name);
/// Whether a part of a normal path is_hidden().
bool has_hidden_part(const std::string& path);
/// Whether a label is a number from 0 to 999,999,999.
bool is_number(const std::string& label);
/// The number that a label begins with; -1: it begins with none.
int64_t number_of(const std::string& label);
/// A path without "." and "..", and without a slash at its beginning: as lists and archives may
/// both have it.
std::string normal_name(const std::string& path);

}  // namespace convoy
