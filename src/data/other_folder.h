// Recognises folders that are no data set: pictures, a data set as it is downloaded, a run.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Throws Exit::bad_input if `dir` is a file, or a folder without a shard and a manifest. The
/// message names the command that converts what is there, or the folder to give.
void check_holds_shards(const std::string& dir);

}  // namespace convoy
