#include "data/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/folder.h"
#include "data/image_formats.h"
#include "data/image_names.h"
#include "data/input_bytes.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

int64_t changed_at(const struct stat& about) {
    return int64_t(about.st_mtim.tv_sec) * 1'000'000'000 + about.st_mtim.tv_nsec;
}

/// Returns the name of a picture's format by the file's first bytes: "HEIC".
std::string format_of(const std::string& path) {
    std::array<uint8_t, image_magic_bytes> bytes{};
    size_t there = 0;
    try {
        const InputBytes file(path);
        there = std::min(bytes.size(), size_t(file.size()));
        file.read(0, int64_t(there), bytes.data());
    } catch (const Error&) {  // its format stays unknown
        there = 0;
    }
    const ImageFormat* format = format_of_bytes({bytes.data(), there});
    return format ? format->name : "of unknown format";
}

/// Returns the names in a folder, sorted, so that every run follows the same one of several links
/// to a folder.
std::vector<std::string> names_in(const std::string& folder, const std::string& advice) {
    std::vector<std::string> names = files_in(folder, advice);
    std::sort(names.begin(), names.end());
    return names;
}

/// The kind of a directory entry, and its status.
struct Entry {
    enum class Kind { folder, link_to_folder, file, special, dead } kind;
    struct stat about{};
    bool link = false;
};

/// Returns kind and status of `path`. Throws Exit::bad_input if they cannot be read.
Entry look_at(const std::string& path) {
    const auto failed = [&] { cannot_read(path, errno, "check its permissions"); };
    Entry entry{Entry::Kind::special};
    if (::lstat(path.c_str(), &entry.about) != 0) failed();
    entry.link = S_ISLNK(entry.about.st_mode);
    if (entry.link && ::stat(path.c_str(), &entry.about) != 0) {
        if (errno != ENOENT && errno != ELOOP && errno != ENOTDIR && errno != EACCES) failed();
        entry.kind = Entry::Kind::dead;
    } else if (S_ISDIR(entry.about.st_mode)) {
        entry.kind = entry.link ? Entry::Kind::link_to_folder : Entry::Kind::folder;
    } else if (S_ISREG(entry.about.st_mode)) {
        entry.kind = Entry::Kind::file;
    }
    return entry;
}

/// Walks the folders of all classes. Links to folders come last, so that a folder is read under
/// its real path where possible.
class FolderWalk {
public:
    FolderWalk(const std::string& root, ImageList& to) : root_(root), outside_(root), to_(to) {}

    /// Adds all images. Returns the names of the archives in the root.
    std::vector<std::string> add_all() {
        source_ = to_.add_source(root_, root_, root_);
        const size_t before = to_.images.size();
        struct stat about{};
        if (::stat(root_.c_str(), &about) == 0) seen_.insert({about.st_dev, about.st_ino});
        for (const std::string& name : names_in(root_, "check --from")) look_at_top(name);
        for (const std::string& label : labels_) walk(label, label);
        for (; !links_.empty(); links_.pop_front()) follow(links_.front().first, links_.front().second);
        note_empty_folders(before);
        return archives_;
    }
    bool has_folders() const { return has_folders_; }
    const std::vector<std::string>& loose_images() const { return loose_images_; }

private:
    void look_at_top(const std::string& name) {
        if (is_hidden(name)) return to_.skip(Skipped::hidden, name);
        const Entry entry = look_at(root_ + "/" + name);
        switch (entry.kind) {
            case Entry::Kind::folder:
                seen_.insert({entry.about.st_dev, entry.about.st_ino});
                labels_.push_back(name);
                break;
            case Entry::Kind::link_to_folder: links_.emplace_back(name, name); break;
            case Entry::Kind::dead: to_.skip(Skipped::dead_link, name); break;
            default:
                if (is_archive_name(name))
                    archives_.push_back(name);
                else if (is_image_name(name))
                    loose_images_.push_back(name);
                else
                    to_.skip(Skipped::other, name);
        }
        has_folders_ = has_folders_ || !labels_.empty() || !links_.empty();
    }
    /// Adds everything in and below folder `first`, a path relative to the root.
    void walk(const std::string& label, const std::string& first) {
        std::vector<std::string> folders = {first};
        while (!folders.empty()) {
            const std::string folder = std::move(folders.back());
            folders.pop_back();
            folders_.push_back(folder);
            for (const std::string& name : names_in(root_ + "/" + folder, "check its permissions"))
                if (const std::string path = folder + "/" + name; is_hidden(name))
                    to_.skip(Skipped::hidden, path);
                else if (add(label, path))
                    folders.push_back(path);
        }
    }
    /// Adds an entry of a folder. True if it is a folder to walk.
    bool add(const std::string& label, const std::string& path) {
        const Entry entry = look_at(root_ + "/" + path);
        switch (entry.kind) {
            case Entry::Kind::folder:
                // Only a link leads to a folder twice. While no link is followed, a repeated inode
                // number belongs to another folder, as on some network file systems.
                return seen_.insert({entry.about.st_dev, entry.about.st_ino}).second || !following_;
            case Entry::Kind::link_to_folder: links_.emplace_back(label, path); return false;
            case Entry::Kind::dead: to_.skip(Skipped::dead_link, path); return false;
            default: break;
        }
        const bool file = entry.kind == Entry::Kind::file;
        if (is_image_name(path) && file && (entry.link || following_) && outside_.holds(root_ + "/" + path))
            to_.outside.add(path);
        if (is_image_name(path) && file)
            to_.images.push_back({.label = label,
                                  .name = path,
                                  .source = source_,
                                  .bytes = entry.about.st_size,
                                  .changed = changed_at(entry.about)});
        else
            skip_file(path, file);
        return false;
    }
    /// Records an entry that is not listed: another file, or a pipe or device with an image's name.
    void skip_file(const std::string& path, bool regular) {
        const bool picture = regular && is_other_picture_name(path);
        if (picture) ++to_.formats[format_of(root_ + "/" + path)];
        to_.skip(picture                                      ? Skipped::picture
                 : is_image_name(path)                        ? Skipped::special
                 : is_archive_name(fs::path(path).filename()) ? Skipped::archive
                                                              : Skipped::other,
                 path);
    }
    void follow(const std::string& label, const std::string& path) {
        const Entry entry = look_at(root_ + "/" + path);
        following_ = true;
        if (!seen_.insert({entry.about.st_dev, entry.about.st_ino}).second) return to_.skip(Skipped::loop, path);
        walk(label, path);
    }
    /// Records folders without an image; of nested ones, only the outermost.
    void note_empty_folders(size_t before) {
        std::set<std::string> full = {""};
        for (size_t i = before; i < to_.images.size(); ++i)
            for (fs::path folder = fs::path(to_.images[i].name).parent_path(); full.insert(folder).second;)
                folder = folder.parent_path();
        std::sort(folders_.begin(), folders_.end());
        for (const std::string& folder : folders_)
            if (!full.contains(folder) && full.contains(fs::path(folder).parent_path()))
                to_.skip(Skipped::no_image, folder);
    }

    const std::string root_;
    Outside outside_;
    ImageList& to_;
    int32_t source_ = 0;
    std::vector<std::string> labels_, folders_, archives_, loose_images_;
    std::deque<std::pair<std::string, std::string>> links_;  // label, path
    std::set<std::pair<dev_t, ino_t>> seen_;                 // folders that are read
    bool following_ = false, has_folders_ = false;
};

}  // namespace

Outside::Outside(const std::string& root) {
    std::error_code unknown;
    root_ = fs::canonical(root, unknown);
}

bool Outside::holds(const std::string& path) {
    std::error_code unknown;
    const fs::path file = path, folder = file.parent_path();
    if (folder != folder_) {
        folder_ = folder;
        real_folder_ = fs::canonical(folder, unknown);
    }
    const bool link = fs::is_symlink(fs::symlink_status(file, unknown));
    const fs::path real = link ? fs::canonical(file, unknown) : real_folder_;
    return std::mismatch(root_.begin(), root_.end(), real.begin(), real.end()).first != root_.end();
}

SourceFile look_at_source(const std::string& path) {
    struct stat status{};
    const bool there = ::stat(path.c_str(), &status) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR) cannot_read(path, errno, "check where links lead");
    if (!there || !S_ISREG(status.st_mode))
        fail(Exit::bad_input,
             path + ": is missing, or no regular file; check the list, the folder, and where links lead");
    return {status.st_size, changed_at(status)};
}

std::vector<std::string> add_folder(const std::string& root, ImageList& to) {
    const size_t before = to.images.size();
    FolderWalk walk(root, to);
    std::vector<std::string> archives = walk.add_all();
    for (const std::string& name : walk.loose_images()) to.skip(Skipped::unclassed, name);
    if (to.images.size() > before) {
        for (const std::string& name : archives) to.skip(Skipped::archive, name);
        return {};
    }
    if (archives.empty() && !walk.has_folders())
        fail(Exit::bad_input,
             root +
                 ": holds neither a folder for each class nor tar archives; give the folder above those of the "
                 "classes, or a list of images with labels");
    if (archives.empty()) return {};
    to.sources.pop_back();  // the archives in it are the sources instead
    to.origins.pop_back();
    to.given.pop_back();
    for (std::string& name : archives) name = root + "/" + name;
    return archives;
}

}  // namespace convoy
