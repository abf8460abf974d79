// Recognises folders that are no data set of shards: pictures, a downloaded data set, a run.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Throws Exit::bad_input if `dir` is a file, or a folder without a shard and a manifest. The
/// message names the command that converts the content, or the folder to use instead.
void check_holds_shards(const std::string& dir);

}  // namespace convoy
