// OUT.partial, the folder of an unfinished conversion: its shards, and a record of each finished
// one. A conversion that was killed resumes there. Several processes work in it, each on its own
// shards. Each process holds the folder open, so it never uses a folder that replaces this one
// later. A folder with any other content belongs to a user, and is refused.
//
//   lock                locked while a conversion works in the folder; removed last
//   conversion.json     everything that the shards depend on
//   mark-RANDOM         identifies this folder
//   unpacked-SPLIT-N/   the content of compressed archives
//   shards/             becomes OUT at the end
//   records/NAME        the ShardRecord of a shard that lacks only mean and deviation
//   records/NAME.open   mean and deviation are being added; such a shard is rebuilt by the next run
//   records/NAME.done   the shard's line of the manifest
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
    /// Changes nothing on disk. `destination`: the path of the data set.
    explicit ConversionFolder(const std::filesystem::path& destination);
    /// Removes the folder if this process took it and it has no conversion.json. Never removes a
    /// file that no conversion makes.
    ~ConversionFolder();
    ConversionFolder(const ConversionFolder&) = delete;

    /// Makes the folder and locks it for this process. Call it first, on one rank. Returns the mark
    /// that identifies the folder, for join(). Throws Exit::usage if another process has locked the
    /// folder, if it is another user's (OwnFolder), or if it has other content than a conversion's.
    std::string take();
    /// Opens the folder on the other ranks, after prepare(). Throws Exit::io if this rank finds
    /// another folder: it was replaced, or this host does not share the file system.
    void join(const std::string& mark);
    /// Returns the folder, after take() or join(). All files in it are opened through this.
    const OwnFolder& folder() const { return *own_; }
    /// Returns the place where this rank reads the source `path`. A source that was unpacked into
    /// the folder is opened through folder().
    FilePlace source(const std::string& path) const;
    /// Removes the archives that were unpacked into the folder. Call it when a conversion failed,
    /// because the next run resumes with its shards, but unpacks archives again.
    void remove_unpacked() const;
    /// The content of the folder when this conversion started: nothing, shards of the same
    /// conversion, or of another one.
    enum class Before { nothing, same, other };
    /// Removes the files of another conversion, writes `identity`, and returns what was there.
    /// `identity`: a text of everything that shards depend on. Call it on the rank that called
    /// take(). Throws Exit::io if a file cannot be removed.
    Before prepare(const std::string& identity);

    FilePlace shard(const std::string& name) const { return {*shards_, name}; }
    /// Returns the record of a shard, or nothing if the shard is not finished.
    std::optional<ShardRecord> finished(const std::string& name) const;
    /// Removes the records of a shard; call before it is made.
    void forget(const std::string& name) const;
    /// Writes the record of a shard; call when it is finished.
    void remember(const ShardRecord&) const;
    /// Adds mean and deviation to a finished shard. Returns its line of the manifest.
    ManifestEntry seal(const ShardRecord&, const PixelStatistics&) const;
    /// Makes the shards the data set. Call on one rank, when all are sealed. Returns the line that
    /// Destination::put_in_place() returned.
    std::string publish(const std::vector<ManifestEntry>&, const Destination&);

private:
    void remove() const;

    const std::string path_;
    std::optional<OwnFolder> own_;                ///< empty before take() or join()
    std::optional<HeldFolder> shards_, records_;  ///< folders in own_; empty before prepare() or join()
    Descriptor lock_{-1};
};

}  // namespace convoy
