// Recognises images, archives and system files by their names.
#pragma once
#include <cstdint>
#include <string>

namespace convoy {

/// True if a file's name has the ending of a picture format that is read, such as .jpg or .png.
bool is_image_name(const std::string& name);
/// True if a file's name has the ending of a picture format that is not read, such as .heic.
bool is_other_picture_name(const std::string& name);
/// True if a file's name is that of an archive: .tar, .tar.gz, .zip and the like.
bool is_archive_name(const std::string& name);
/// True if a file or folder is hidden (.git, macOS's ._x.jpg), or made by a system (__MACOSX,
/// @eaDir, lost+found).
bool is_hidden(const std::string& name);
/// True if is_hidden() is true for a part of a path. Parts "." and ".." do not count.
bool has_hidden_part(const std::string& path);
/// True if a label is a number from 0 to 999,999,999.
bool is_number(const std::string& label);
/// Returns the number at the start of a label; -1 if there is none.
int64_t number_of(const std::string& label);
/// Returns a path without ".", without ".." after a folder, and without a slash at its beginning.
/// Paths in lists and in archives can then be compared.
std::string normal_name(const std::string& path);

}  // namespace convoy
