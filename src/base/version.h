// Which Convoy this is: goes into every shard, metric file and model file. CITATION.cff has the
// same number (CommandLine.TheVersionIsThatOfTheCitation).
#pragma once

namespace convoy {

constexpr const char* version = "0.2.0-dev";
/// The commit this was built from ("-dirty" if files were changed since), or "unknown" outside a
/// git checkout.
const char* commit();

}  // namespace convoy
