#include "data/shard_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "base/durable.h"
#include "base/held_folder.h"
#include "base/shorten.h"
#include "base/text.h"
#include "base/version.h"

namespace convoy {

constexpr const char* manifest_name = "manifest.json";

void sync_path(const FilePlace& file) {
    const Descriptor opened(::open(file.opened.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened.valid() || ::fsync(opened.fd()) != 0)
        fail(Exit::io, file.shown + ": cannot be written to the end (" + std::strerror(errno) + "); is the disk full?");
}

void check_class_lengths(const std::vector<std::string>& names, const std::string& where, const std::string& advice) {
    constexpr size_t longest = 1000;  // bytes; in HDF5, every name takes the bytes of the longest one
    for (const std::string& name : names)
        if (name.size() > longest)
            fail(Exit::bad_input, where + "class '" + printable(shortened(name, 40)) + "' has a name of " +
                                      std::to_string(name.size()) + " bytes, and " + std::to_string(longest) +
                                      " are allowed; " + advice);
}

void check_class_name(const std::string& name, const std::string& advice) {
    check_class_lengths({name}, "", advice);
    bool is_text = true;
    try {
        nlohmann::json(name).dump();
    } catch (const nlohmann::json::type_error&) {
        is_text = false;
    }
    if (!is_text) fail(Exit::bad_input, "class '" + name + "' is no UTF-8; " + advice);
    if (name.find('\0') != std::string::npos)
        fail(Exit::bad_input, "class '" + name + "' has a zero byte in its name; " + advice);
    if (printable(name, "\t") != name)
        fail(Exit::bad_input, "class '" + name + "' has a control character in its name; " + advice);
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

void write_manifest(const HeldFolder& folder, const std::vector<ManifestEntry>& entries) {
    nlohmann::ordered_json json{
        {"format", "convoy-manifest"}, {"version", 1}, {"shards", nlohmann::ordered_json::array()}};
    for (const ManifestEntry& entry : entries)
        json["shards"].push_back({{"file", entry.file},
                                  {"split", entry.split},
                                  {"images", entry.images},
                                  {"bytes", entry.bytes},
                                  {"sha256", entry.sha256}});
    const std::string text = json.dump(2) + '\n';
    const Descriptor file = folder.replace(manifest_name);
    if (!write_all(file.fd(), text.data(), text.size()) || ::fsync(file.fd()) != 0)
        cannot_write(folder.shown(manifest_name));
}

}  // namespace convoy
