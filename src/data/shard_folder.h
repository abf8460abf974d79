// What writers of shards share: the attributes and the manifest.
#pragma once
#include <string>
#include <vector>

#include "base/file_place.h"
#include "data/shard.h"

namespace convoy {

/// Waits until a file is on disk. Throws Exit::io.
void sync_path(const FilePlace&);
/// Throws Exit::bad_input, ending with `advice`, for a name that data sets, models and metrics
/// cannot hold (they have UTF-8 that ends with a zero), or that would steer a terminal.
void check_class_name(const std::string& name, const std::string& advice);

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
/// Writes manifest.json. Throws Exit::io.
void write_manifest(const HeldFolder& folder, const std::vector<ManifestEntry>&);

}  // namespace convoy
