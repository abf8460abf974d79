// The output of `convoy predict --as reframe`: what a prediction expects, as references of ReFrame
// (https://reframe-hpc.readthedocs.io). jobs/reframe/convoy.py reads them.
#pragma once
#include <string>

#include "report/prediction.h"

namespace convoy {

/// Returns a JSON list with an object per number of ranks: the options of `convoy bench` and
/// `convoy comm-test` that measure what was predicted, and the reference of each. A reference is
/// [value, lowest, highest, unit]; the limits are fractions of the value, null if there is none.
/// `system` is ReFrame's SYSTEM:PARTITION, or "*" for any. `cpu`: ranks are on CPUs. The time
/// of their all-reduces is known only if the cluster file has measured ones.
std::string reframe_references(const PredictedTable&, const Cluster&, const std::string& system, bool cpu);

}  // namespace convoy
