// The timeline of a benchmark: one training step on every rank as a trace in Chrome's format, which
// chrome://tracing, Perfetto and src/plot/timeline.py show.
#pragma once
#include <string>
#include <vector>

#include "bench/result.h"
#include "comm/comm.h"

namespace convoy {

/// Collective; the JSON is rank 0's. A rank is a process with what its thread did, and each sum
/// over ranks from its start to its end.
std::string timeline_json(Comm&, const std::vector<Span>& of_this_rank, const Graph&, const BenchResult&);

}  // namespace convoy
