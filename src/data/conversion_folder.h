// OUT.partial, where a conversion that takes hours grows: shards, and a record of each finished
// one. A conversion that was killed goes on there. Several processes work in it, each at its own
// shards. Each holds the folder from the beginning: another folder in its place is never used.
//
//   mark-RANDOM         tells this folder from others
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

#include "base/descriptor.h"
#include "base/own_folder.h"
#include "data/destination.h"
#include "data/shard_conversion.h"

namespace convoy {

class ConversionFolder {
public:
    /// Touches nothing. `destination`: what becomes the data set.
    explicit ConversionFolder(const std::filesystem::path& destination);
    /// Removes a folder that was taken and in which nothing was begun.
    ~ConversionFolder();
    ConversionFolder(const ConversionFolder&) = delete;

    /// On one rank, before all else: makes the folder and takes it for this process. Throws
    /// Exit::usage if another process has it, or another user (OwnFolder). Returns the mark that
    /// tells this folder from others, for join().
    std::string take();
    /// On the other ranks, once it is prepared. Throws Exit::io if the folder that this rank finds
    /// is another one: somebody exchanged them, or this host has a file system of its own.
    void join(const std::string& mark);
    /// The folder, on a rank that took or joined it: everything in it goes through this.
    const OwnFolder& folder() const { return *own_; }
    /// Where this rank reads a source, which may be an archive that was unpacked here.
    FilePlace source(const std::string& path) const;
    /// What was there before this conversion.
    enum class Before { nothing, same, other };
    /// On that rank. `identity` says all that shards depend on: what is left of another conversion
    /// is removed. Throws Exit::io if it cannot be.
    Before prepare(const std::string& identity);

    FilePlace shard(const std::string& name) const { return {*shards_, name}; }
    /// The record of a shard that is there already.
    std::optional<ShardRecord> finished(const std::string& name) const;
    /// Before a shard is made, and once it is.
    void forget(const std::string& name) const;
    void remember(const ShardRecord&) const;
    /// Adds mean and deviation to a shard that has a record; its line of the manifest.
    ManifestEntry seal(const ShardRecord&, const PixelStatistics&) const;
    /// On one rank, when all are sealed: the shards become the data set. The line that is returned
    /// is that of Destination::put_in_place().
    std::string publish(const std::vector<ManifestEntry>&, const Destination&);

private:
    const std::string path_;
    std::optional<OwnFolder> own_;                ///< none until it was taken
    std::optional<HeldFolder> shards_, records_;  ///< in own_; none until it was prepared
    Descriptor lock_{-1};
};

}  // namespace convoy
