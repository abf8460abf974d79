#include "data/shard_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "base/durable.h"
#include "base/folder.h"
#include "base/version.h"

namespace convoy {
namespace fs = std::filesystem;

fs::path destination_of(const std::string& dir) {
    fs::path destination = fs::path(dir).lexically_normal();
    if (!destination.has_filename()) destination = destination.parent_path();  // "data/" means "data"
    if (destination.empty() || destination.filename() == "." || destination.filename() == "..")
        fail(Exit::usage, "'" + dir + "' cannot be replaced by a data set; give --to a folder of its own");
    return destination;
}

void sync_path(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
    const int code = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (!synced)
        fail(Exit::io, path + ": cannot be written to the end (" + std::strerror(code) + "); is the disk full?");
}

namespace {

/// Whether --force may delete what a folder has: a file of a data set.
bool is_of_data_set(int folder, const std::string& name) {
    std::string split;
    int shard = 0, shards = 0;
    struct stat about{};
    return (name == "manifest.json" || parse_shard_name(name, split, shard, shards)) &&
           ::fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(about.st_mode);
}

/// The data set that `to` was, from before another took its place. It is deleted by its descriptor,
/// so that links which appear on its path lead nowhere else.
class Replaced {
public:
    explicit Replaced(const fs::path& to) : to_(to), old_(to.string() + ".replaced-XXXXXX") {
        folder_ = Descriptor(::open(to.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!folder_.valid() || !::mkdtemp(old_.data())) fail_to_place();
        if (::rename(to.c_str(), old_.c_str()) == 0) return;
        const int code = errno;
        ::rmdir(old_.c_str());
        errno = code;
        fail_to_place();
    }
    void take(const fs::path& partial) const {
        if (::rename(partial.c_str(), to_.c_str()) == 0) return;
        const int code = errno;
        const bool back = ::rename(old_.c_str(), to_.c_str()) == 0;
        errno = code;
        fail_to_place(back ? "" : "; what was there is now " + old_);
    }
    /// Returns what to tell the user if not all of it was deleted, else empty.
    std::string discard(bool force) const {
        std::error_code error;
        const std::vector<std::string> names = names_in(folder_.fd(), error);
        if (error) return kept("cannot be looked into (" + error.message() + ")");
        for (const std::string& name : names)
            if (!force || !is_of_data_set(folder_.fd(), name))
                return kept("holds " + name + (force ? ", which is not part of a data set" : ""));
        const bool deleted = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
            return ::unlinkat(folder_.fd(), name.c_str(), 0) == 0;
        });
        if (deleted && ::rmdir(old_.c_str()) == 0) return "";
        return kept("cannot all be deleted (" + std::string(std::strerror(errno)) + ")");
    }

private:
    [[noreturn]] void fail_to_place(const std::string& more = "") const {
        fail(Exit::io, to_.string() + ": cannot be put in place (" + std::strerror(errno) + ")" + more);
    }
    std::string kept(const std::string& why) const {
        return to_.string() + ": what was there before " + why + "; it is kept as " + old_;
    }

    const fs::path to_;
    std::string old_;
    Descriptor folder_{-1};
};

}  // namespace

std::string put_in_place(const fs::path& partial, const fs::path& to, bool force) {
    sync_path(partial);
    std::string kept;
    if (::rename(partial.c_str(), to.c_str()) != 0) {  // it takes the place of an empty folder
        const int code = errno;
        struct stat about{};
        if (::lstat(to.c_str(), &about) != 0 || !S_ISDIR(about.st_mode))
            fail(Exit::io, to.string() + ": cannot be put in place (" + std::strerror(code) + ")");
        const Replaced replaced(to);
        replaced.take(partial);
        kept = replaced.discard(force);
    }
    sync_path(to.has_parent_path() ? to.parent_path().string() : ".");
    return kept;
}

void write_attributes(hid_t file, const ShardTitle& title, const Source& source, const PixelStatistics* statistics) {
    h5::set_checked_attribute(file, "format", title.format);
    h5::set_attribute(file, "version", int64_t(1));
    h5::set_checked_attribute(file, "split", title.split);
    h5::set_attribute(file, "shard", int64_t(title.shard));
    h5::set_attribute(file, "shards", int64_t(title.shards));
    h5::set_attribute(file, "images", title.images);
    h5::set_attribute(file, "classes", int64_t(source.class_names.size()));
    h5::set_checked_attribute(file, "class_names", source.class_names);
    if (statistics) write_statistics(file, *statistics);
    h5::set_checked_attribute(file, "source", source.files);
    h5::set_checked_attribute(file, "source_sha256", source.sha256);
    h5::set_checked_attribute(file, "source_checksum", source.checksum);
    h5::set_checked_attribute(file, "converter", std::string("convoy ") + version + " " + commit());
}

void write_statistics(hid_t file, const PixelStatistics& statistics) {
    h5::set_attribute(file, "mean", statistics.mean);
    h5::set_attribute(file, "stddev", statistics.stddev);
}

void write_manifest(const std::string& path, const std::vector<ManifestEntry>& entries) {
    nlohmann::ordered_json json{
        {"format", "convoy-manifest"}, {"version", 1}, {"shards", nlohmann::ordered_json::array()}};
    for (const ManifestEntry& entry : entries)
        json["shards"].push_back({{"file", entry.file},
                                  {"split", entry.split},
                                  {"images", entry.images},
                                  {"bytes", entry.bytes},
                                  {"sha256", entry.sha256}});
    const std::string text = json.dump(2) + '\n';
    const Descriptor file(create_to_write(path));
    if (!write_all(file.fd(), text.data(), text.size()) || ::fsync(file.fd()) != 0) cannot_write(path);
}

/// A link is not followed: it may be another user's. In a folder as /tmp, only its owner may rename
/// what is there.
static void check_owner(const std::string& dir, const fs::path& to) {
    struct stat about{}, parent{};
    if (::lstat(to.c_str(), &about) != 0) return;
    std::error_code unknown;
    if (S_ISLNK(about.st_mode))
        fail(Exit::usage, dir + ": is a symbolic link to " + fs::read_symlink(to, unknown).string() +
                              "; give --to that folder itself");
    const uid_t user = ::geteuid();
    const bool known = ::stat(to.has_parent_path() ? to.parent_path().c_str() : ".", &parent) == 0;
    if (known && (parent.st_mode & S_ISVTX) && user != 0 && about.st_uid != user && parent.st_uid != user)
        fail(Exit::usage,
             dir + ": belongs to another user, who alone may rename it in this folder; choose another --to");
}

void check_destination(const std::string& dir, bool force) {
    const fs::path to = destination_of(dir);
    check_owner(dir, to);
    std::error_code error;
    if (!fs::exists(to, error)) return;
    const Descriptor folder(::open(to.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::vector<std::string> names = names_in(folder.fd(), error);
    if (error) fail(Exit::usage, dir + ": exists and is not a readable folder; choose another --to");
    for (const std::string& name : names) {
        if (!force)
            fail(Exit::usage, dir + ": is not empty; choose another --to, or replace the data set there with --force");
        if (!is_of_data_set(folder.fd(), name))
            fail(Exit::usage,
                 dir + ": holds " + name +
                     ", which is not part of a data set; --force does not delete that, choose another --to");
    }
}

}  // namespace convoy
