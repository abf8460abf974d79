// OUT.partial, where a conversion that takes hours grows: shards, and a record of each finished
// one. A conversion that was killed goes on there. Several processes work in it, each at its own
// shards.
//
//   unpacked-SPLIT-N/   archives that were compressed
//   shards/NAME         becomes OUT in the end
//   records/NAME        a ShardRecord, of a shard that is complete but for mean and deviation
//   records/NAME.open   these are being added: a shard that was left like this is made again
//   records/NAME.done   its line of the manifest
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/own_folder.h"
#include "data/shard_conversion.h"

namespace convoy {

class ConversionFolder {
public:
    /// Touches nothing.
    explicit ConversionFolder(const std::filesystem::path& destination);
    /// Removes a folder that was taken and in which nothing was begun.
    ~ConversionFolder();
    ConversionFolder(const ConversionFolder&) = delete;

    /// On one rank, before all else: makes the folder and takes it for this process. Throws
    /// Exit::usage if another process has it, or another user (OwnFolder).
    void take();
    /// On the other ranks, after that.
    void join();
    std::string unpacked() const { return (partial_ / "unpacked").string(); }
    /// What was there before this conversion.
    enum class Before { nothing, same, other };
    /// On that rank. `identity` says all that shards depend on: what is left of another conversion
    /// is removed. Throws Exit::io if it cannot be.
    Before prepare(const std::string& identity) const;

    std::string shard_path(const std::string& name) const { return (shards_ / name).string(); }
    /// The record of a shard that is there already.
    std::optional<ShardRecord> finished(const std::string& name) const;
    /// Before a shard is made, and once it is.
    void forget(const std::string& name) const;
    void remember(const ShardRecord&) const;
    /// Adds mean and deviation to a shard that has a record; its line of the manifest.
    ManifestEntry seal(const ShardRecord&, const PixelStatistics&) const;
    /// On one rank, when all are sealed: the shards become the data set. `force` and the line that
    /// is returned are those of put_in_place().
    std::string publish(const std::vector<ManifestEntry>&, bool force);

private:
    std::string record_path(const std::string& name) const { return (records_ / name).string(); }

    std::filesystem::path destination_, partial_, shards_, records_;
    std::optional<OwnFolder> own_;  ///< partial_; none until it was taken
    int lock_ = -1;
};

}  // namespace convoy
