// The shape of JSON that other people may have written, which is looked at before it is parsed.
#pragma once
#include <string_view>

namespace convoy {

/// Returns false for JSON that is nested more deeply than Convoy's files are, or that has an object
/// of more than a thousand names. Parsing nested lists takes up to 70 times the memory of their
/// text. nlohmann::ordered_json takes time that is quadratic in the number of names. The parser
/// finds all other mistakes.
bool has_modest_shape(std::string_view json);

}  // namespace convoy
