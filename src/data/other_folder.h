// Recognises folders that are no data set of shards: pictures, a downloaded data set, a run.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Throws Exit::bad_input if `dir` is a file, or has neither shards nor a manifest but content that
/// is recognised. The message names the command that converts it, or the folder to use instead.
void check_holds_shards(const std::string& dir);

}  // namespace convoy
