// The shape of JSON that other people may have written, which is looked at before it is parsed.
#pragma once
#include <string_view>

namespace convoy {

/// Returns false for JSON that is nested more deeply than Convoy's files are, or that has an object
/// of more than a thousand names. A parser takes up to 70 times the memory of nested lists, and
/// nlohmann::ordered_json a time that grows with the square of the names. Other mistakes are the
/// parser's to find.
bool has_modest_shape(std::string_view json);

}  // namespace convoy
