// Which images a source has, and of which class each is: a folder a class, tar archives, or a list
// of paths and labels. Images are sorted by class and name, so that a folder and an archive of it
// give the same list.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

/// One image file.
struct ListedImage {
    std::string label;    ///< class as the source has it: a name, or a number
    std::string name;     ///< below the class's folder or archive: "n01440764/x.JPEG"; of a folder: its path in there
    int32_t source = 0;   ///< index into ImageList::sources
    int64_t offset = -1;  ///< in the archive; -1: a file of its own
    int64_t bytes = 0;
    int32_t class_index = -1;  ///< set by name_classes
    int64_t changed = 0;       ///< when its file, or its archive, was: nanoseconds since 1970
    std::string member{};      ///< its whole name in the archive; empty: a file of its own
};

struct ImageList {
    std::vector<std::string> sources;  ///< folders and archives
    std::vector<ListedImage> images;   ///< sorted by class and name
    bool numbered = false;             ///< labels are numbers from 0, of a list or of .cls members
    int64_t other_files = 0;           ///< that are no images by their names; links in archives
};

/// Where images come from.
struct ImageSource {
    std::vector<std::string> from;  ///< a folder, tar archives, or a list of lines "path label"
    std::string list;               ///< labels of the images in these, by path or name; or empty
    std::string unpacked{};         ///< folder for archives that are compressed: ranks read at any place
};

/// Lists the images of a source:
/// - a folder: each subfolder is a class, with all images below it; a folder of nothing but tar
///   archives stands for these;
/// - a tar archive: of archives, each a class (ILSVRC's); or with a member KEY.cls for each KEY.jpg
///   (WebDataset's); or images in folders, each a class; else the archive's name is the class;
/// - a list: paths from its own folder;
/// - with `list`, that says the labels, and images that it does not name are left out. It names
///   members of archives by their whole names, or by any part of these from a folder on.
/// Throws Exit::bad_input: nothing there, a class without images, an image without a label, a line
/// that may mean several images.
ImageList list_images(const ImageSource&);

/// Classes in the order of their labels.
struct ClassTable {
    std::vector<std::string> ids;    ///< as sources have them: "n01440764"
    std::vector<std::string> names;  ///< for people: "tench"
    bool numbered = false;           ///< labels are indices into these
};

/// The classes of the training images, whose class_index is set: sorted labels, or numbers. `file`
/// names them, a line "ID NAME" each; empty: names are the labels. Throws Exit::bad_input if a
/// label has no line there.
ClassTable name_classes(ImageList& train, const std::string& file);
/// Finds the classes of other images. Labels that are numbers are the ids, if one of them is among
/// these and the training's were no indices; else they are indices. Throws Exit::bad_input for a
/// class that the training has not.
void find_classes(ImageList& test, const ClassTable& classes);

}  // namespace convoy
