// Lists the images of a source and their classes. A source is a folder per class, tar archives, or
// a list of paths and labels. Images are sorted by class and name, so a folder and an archive of it
// give the same list.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_place.h"
#include "base/own_folder.h"

namespace convoy {

/// One image file.
struct ListedImage {
    std::string label;    ///< class as the source gives it: a name or a number
    std::string name;     ///< class and file name: "n01440764/x.JPEG"; in a folder, the path in the source
    int32_t source = 0;   ///< index into ImageList::sources
    int64_t offset = -1;  ///< byte offset in the archive; -1: a separate file
    int64_t bytes = 0;
    int32_t class_index = -1;  ///< set by name_classes() or find_classes()
    int64_t changed = 0;       ///< modification time of the file or archive, in nanoseconds since 1970
    std::string member{};      ///< full name in the archive; empty: a separate file
};

/// Reasons for leaving something in a source out of the list.
enum class Skipped : uint8_t {
    other,        ///< the name is not that of an image
    picture,      ///< a picture of a format that is not read
    link,         ///< a link in an archive
    hidden,       ///< is_hidden() is true for its name
    dead_link,    ///< a link with a missing target, or one that this user may not read
    loop,         ///< a link to a folder that is read anyway, under another path
    special,      ///< a pipe or device with an image's name
    replaced,     ///< a member of an archive; a later member has the same name
    repeated,     ///< an image that another line or source gives with the same label
    archive,      ///< an archive beside or in the class folders
    unclassed,    ///< an image beside the class folders
    no_image,     ///< a folder without an image
    other_split,  ///< an image of a split that is neither training nor test
    unlisted,     ///< an archive of which the list names no image
    unnamed       ///< an image in an archive that the list does not name
};
constexpr size_t skipped_kinds = 15;

/// The number of files that were skipped, or that a summary reports, and the first ones' names.
struct SkippedCount {
    static constexpr size_t most_examples = 5;

    int64_t count = 0;
    std::vector<std::string> examples{};

    void add(const std::string& name, int64_t times = 1);
    void add(const SkippedCount&);
};

/// A source's path as the user gave it or as it was found, and its number of images.
struct GivenImages {
    std::string path;
    int64_t images = 0;
};

struct ImageList {
    std::vector<FilePlace> sources;    ///< folders and plain archives
    std::vector<std::string> origins;  ///< [sources], the files before they were unpacked
    std::vector<GivenImages> given;    ///< [sources]; take_test_images() leaves only those with images
    std::vector<ListedImage> images;   ///< sorted by class and name
    bool numbered = false;             ///< true: labels are numbers from 0, in a list or in .cls members
    bool placed = true;                ///< true: labels are the names of the folders that hold the images
    std::vector<int32_t> labelled{};   ///< indices of sources with labels in .cls members
    std::array<SkippedCount, skipped_kinds> skipped{};
    std::map<std::string, int64_t> formats{};  ///< counts of Skipped::picture in folders, by format: "GIF"
    SkippedCount outside{};                    ///< included images outside the folder, or outside the list's folder

    /// Adds a source that is read at `place`. `origin`: the file that it was unpacked from, or its
    /// own path. `shown`: its path as the user gave it. Returns its index.
    int32_t add_source(const FilePlace& place, const std::string& origin, const std::string& shown);
    void skip(Skipped why, const std::string& name) { skipped[size_t(why)].add(name); }
    const SkippedCount& count(Skipped why) const { return skipped[size_t(why)]; }
    /// Sorts by class, name and place.
    void sort();
};

/// The sources of one split.
struct ImageSource {
    std::vector<std::string> from;  ///< a folder, tar archives, or a list of lines "path label"
    std::string list;               ///< a list of labels for the images in `from`; or empty
    const OwnFolder* unpack_in{};   ///< the folder in which compressed archives are unpacked
    std::string unpacked{};         ///< prefix of the names of their folders there
};

/// Lists the images of a source:
/// - a folder: each subfolder is a class that has all images below it. A folder that holds only tar
///   archives means these archives;
/// - a tar archive: classes are the archives in it (ILSVRC), the content of a KEY.cls beside each
///   KEY.jpg (WebDataset), or its folders; without any of these, the archive's name is the class;
/// - a list: its paths are relative to its folder;
/// - with `list`: the list gives the labels, and images that it does not name are left out. It
///   names members of archives by their full names, or by the last parts of these.
/// Throws Exit::bad_input for a missing source, and for one without images. Also throws it for an
/// image without a label or with two, and for a line that may mean several images.
ImageList list_images(const ImageSource&);

/// The classes, in the order of their indices.
struct ClassTable {
    std::vector<std::string> ids;    ///< labels in the sources: "n01440764"
    std::vector<std::string> names;  ///< names for people: "tench"
    bool numbered = false;           ///< labels in the sources are class indices
    bool reordered = false;          ///< the file of names lists the classes in another order
};

/// Returns the classes of the training images, and sets the images' class_index. Classes are the
/// sorted labels; if labels are numbers, these are the class indices. `file` has the names, a line
/// "ID NAME" per class; if it is empty, labels are the names. Throws Exit::bad_input if a label has
/// no line there, or if labels are numbers and the id or name of line k (from 0) is a number, but
/// not k.
ClassTable name_classes(ImageList& train, const std::string& file);
/// Sets the class_index of test images. If all test labels are numbers, they are class indices in
/// two cases: the training labels are class indices, too, or none of the test labels is a training
/// label. Otherwise they are looked up among the training labels and names. Throws Exit::bad_input
/// for a class that the training images do not have, and for indices if the classes are
/// `reordered`.
void find_classes(ImageList& test, const ClassTable& classes);

}  // namespace convoy
