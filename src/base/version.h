// Convoy's version, which is written into every shard, metric file and model file. CITATION.cff has
// the same number (CommandLine.TheVersionIsThatOfTheCitation).
#pragma once

namespace convoy {

constexpr const char* version = "0.2.0-dev";
/// Returns the commit this was built from, with "-dirty" if files differed. Returns "unknown" if it
/// was not built in a git checkout.
const char* commit();

}  // namespace convoy
