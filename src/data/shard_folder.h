// Writes attributes and manifest, for all writers of shards.
#pragma once
#include <string>
#include <vector>

#include "base/file_place.h"
#include "data/shard.h"

namespace convoy {

/// Throws Exit::bad_input, beginning with `where`, for names longer than check_class_name() allows,
/// because texts and tables repeat a name for each image.
void check_class_lengths(const std::vector<std::string>& names, const std::string& where, const std::string& advice);

/// Waits until a file is on disk. Throws Exit::io.
void sync_path(const FilePlace&);
/// Throws Exit::bad_input, ending with `advice`, for a name that is not UTF-8 or has a zero byte:
/// data sets, models and metrics cannot hold it. Also throws it for control characters other than
/// tabs, which would steer a terminal, and for more than 1000 bytes.
void check_class_name(const std::string& name, const std::string& advice);

/// Root attributes that differ between shards.
struct ShardTitle {
    std::string format, split;
    int shard, shards;
    int64_t images;
};
/// Writes the root attributes: `title`, and all of `source` except its splits. If `statistics` is
/// null, write_statistics() must add mean and deviation later.
void write_attributes(hid_t file, const ShardTitle&, const Source& source, const PixelStatistics* statistics);
void write_statistics(hid_t file, const PixelStatistics&);
/// Writes manifest.json. Throws Exit::io.
void write_manifest(const HeldFolder& folder, const std::vector<ManifestEntry>&);

}  // namespace convoy
