// What writers of shards share: the folder they go to, the attributes and the manifest.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/shard.h"

namespace convoy {

/// `dir` without a slash at its end. Throws Exit::usage for what cannot be replaced: "", ".", "..".
std::filesystem::path destination_of(const std::string& dir);
/// Renames the finished folder `partial` to `to`, in place of the folder that is there. That one is
/// deleted with `force` if it holds a data set and nothing else, or if it is empty. Else it is kept
/// beside `to`, and a line that says so is returned. Throws Exit::io.
std::string put_in_place(const std::filesystem::path& partial, const std::filesystem::path& to, bool force);
/// Waits until a file or folder is on disk. Throws Exit::io.
void sync_path(const std::string& path);

/// What one shard says of itself.
struct ShardTitle {
    std::string format, split;
    int shard, shards;
    int64_t images;
};
/// The root attributes; of `source` all but its splits. `statistics` null: write_statistics adds
/// them later.
void write_attributes(hid_t file, const ShardTitle&, const Source& source, const PixelStatistics* statistics);
void write_statistics(hid_t file, const PixelStatistics&);
void write_manifest(const std::string& path, const std::vector<ManifestEntry>&);

}  // namespace convoy
