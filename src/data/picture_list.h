// Lists pictures to classify: files, folders, tar archives and lists of paths, without labels.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// A picture that was found, but not read yet.
struct Picture {
    std::string name;     ///< for people: the path; in an archive, its path, a colon and the member's name
    std::string path{};   ///< of the file or archive
    int64_t offset = -1;  ///< of the member in an archive; -1: `path` is the picture
    int64_t bytes = 0;    ///< of the member
};

/// Lists the pictures of each path:
/// - a folder: all files in and below it whose names are those of pictures, sorted by path;
/// - a plain tar archive: all such members, in the archive's order;
/// - a list (.txt, .lst): a path in each line, relative to the list's folder;
/// - any other file: a picture.
/// Throws Exit::bad_input if a path is missing, or a folder, archive or list has no picture.
std::vector<Picture> list_pictures(const std::vector<std::string>& paths);

/// Returns the bytes of a picture's file. Throws BadImage (data/image_file.h) if it cannot be read.
std::vector<uint8_t> read_picture(const Picture&);

/// Convert a list to text, for other ranks, and back.
std::string text_of(const std::vector<Picture>&);
std::vector<Picture> pictures_of(const std::string& text);

}  // namespace convoy
