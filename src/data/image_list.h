// Lists the images of a source and their classes: a folder per class, tar archives, or a list of
// paths and labels. Images are sorted by class and name, so that a folder and an archive of it give
// the same list.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file_place.h"
#include "base/own_folder.h"

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

/// Why something that was found in a source is not in its list.
enum class Skipped : uint8_t {
    other,        ///< no image by its name
    link,         ///< a link in an archive
    hidden,       ///< a name as is_hidden() has it
    dead_link,    ///< a link that leads nowhere, or where this user may not go
    loop,         ///< a link to a folder that is read anyway
    special,      ///< a pipe or device with an image's name
    replaced,     ///< a member of an archive that a later one of the same name replaces
    repeated,     ///< an image that another line or source gives with the same label
    archive,      ///< an archive beside or in the folders of classes
    unclassed,    ///< an image beside the folders of classes
    no_image,     ///< a folder without an image
    other_split,  ///< an image of a split that is neither training nor test
    unlisted,     ///< an archive of which a list names no image
    unnamed       ///< an image in an archive that the list does not name
};
constexpr size_t skipped_kinds = 14;

/// How many were skipped, or deserve a word, and the names of the first ones.
struct SkippedCount {
    static constexpr size_t most_examples = 5;

    int64_t count = 0;
    std::vector<std::string> examples{};

    void add(const std::string& name, int64_t times = 1);
    void add(const SkippedCount&);
};

/// A source as the user named it or as it was found.
struct GivenImages {
    std::string path;
    int64_t images = 0;
};

struct ImageList {
    std::vector<FilePlace> sources;    ///< folders and archives, as they are read
    std::vector<std::string> origins;  ///< [sources], before they were unpacked
    std::vector<GivenImages> given;    ///< [sources]; take_test_images() leaves only those with images
    std::vector<ListedImage> images;   ///< sorted by class and name
    bool numbered = false;             ///< labels are numbers from 0, of a list or of .cls members
    bool placed = true;                ///< labels are those of the folders that images lie in
    std::vector<int32_t> labelled{};   ///< sources whose labels are .cls members
    std::array<SkippedCount, skipped_kinds> skipped{};
    SkippedCount outside{};  ///< images that a folder or list names and that lie elsewhere; they are taken

    /// Adds a source that is read at `place` and was unpacked from `origin`, if that is another
    /// file. `shown`: its path as the user gave it. Returns its index.
    int32_t add_source(const FilePlace& place, const std::string& origin, const std::string& shown);
    void skip(Skipped why, const std::string& name) { skipped[size_t(why)].add(name); }
    const SkippedCount& count(Skipped why) const { return skipped[size_t(why)]; }
    /// Sorts by class, name and place.
    void sort();
};

/// Where images come from.
struct ImageSource {
    std::vector<std::string> from;  ///< a folder, tar archives, or a list of lines "path label"
    std::string list;               ///< labels of the images in these, by path or name; or empty
    const OwnFolder* unpack_in{};   ///< where archives that are compressed are unpacked
    std::string unpacked{};         ///< begin of the names of their folders there
};

/// Lists the images of a source:
/// - a folder: each subfolder is a class, with all images below it; a folder of nothing but tar
///   archives stands for these;
/// - a tar archive: of archives, each a class (ILSVRC's); or with a member KEY.cls for each KEY.jpg
///   (WebDataset's); or images in folders, each a class; else the archive's name is the class;
/// - a list: paths from its own folder;
/// - with `list`, that says the labels, and images that it does not name are left out. It names
///   members of archives by their whole names, or by any part of these from a folder on.
/// Throws Exit::bad_input: nothing there, a source without images, an image without a label or with
/// two, a line that may mean several images.
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
