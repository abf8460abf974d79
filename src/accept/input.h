// How fast is the folder that will hold the data? All nodes read its files at the same time, then
// one node alone.
#pragma once
#include "accept/verdict.h"
#include "comm/comm.h"

namespace convoy {

/// Amounts that one node read, and how long it took.
struct NodeReading {
    std::string host;
    double bytes = 0, seconds = 0;
    int64_t files = 0;
    std::string trouble{};  ///< the first file that could not be read, and why; empty: none
};
/// Finds nodes that read slower than the others. `alone`: what the first node read alone.
LevelResult judge_reading(const std::vector<NodeReading>& at_once, const NodeReading& alone);

/// Returns the paths of all files in a folder and in the folders below it, sorted. Throws
/// Exit::bad_input if there is no such folder, or no file in it.
std::vector<std::string> files_to_read(const std::string& folder);

/// Reads files of `folder` on every node, each at most once, until `most` bytes are read. Drops
/// each file from the host's page cache first. Collective; the result is the same on every rank.
/// Throws as files_to_read().
LevelResult input_level(Comm& world, const std::string& folder, int64_t most);

}  // namespace convoy
