#include "data/shard_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

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

void put_in_place(const fs::path& partial, const fs::path& to) {
    sync_path(partial);
    std::error_code error;
    const fs::path old = to.string() + ".replaced-" + std::to_string(getpid());
    if (is_there(to)) fs::rename(to, old, error);
    if (!error) fs::rename(partial, to, error);
    if (error) fail(Exit::io, to.string() + ": cannot be put in place (" + error.message() + ")");
    fs::remove_all(old, error);
    sync_path(to.has_parent_path() ? to.parent_path().string() : ".");
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
    std::ofstream out(path, std::ios::binary);
    out << json.dump(2) << '\n';
    out.close();
    if (!out) fail(Exit::io, path + ": cannot be written; is the disk full?");
    sync_path(path);
}

void check_destination(const std::string& dir, bool force) {
    std::error_code error;
    if (!fs::exists(dir, error)) return;
    const std::vector<fs::path> entries = entries_of(dir, error);
    if (error) fail(Exit::usage, dir + ": exists and is not a readable folder; choose another --to");
    for (const fs::path& entry : entries) {
        std::string split, name = entry.filename();
        int shard = 0, shards = 0;
        if (!force)
            fail(Exit::usage, dir + ": is not empty; choose another --to, or replace the data set there with --force");
        if (name != "manifest.json" && !parse_shard_name(name, split, shard, shards))
            fail(Exit::usage,
                 dir + ": holds " + name +
                     ", which is not part of a data set; --force does not delete that, choose another --to");
    }
}

}  // namespace convoy
