// The timeline of a benchmark: one training step on every rank as a trace in Chrome's format, which
// chrome://tracing, Perfetto and src/plot/timeline.py show.
#pragma once
#include <string>
#include <vector>

#include "bench/result.h"
#include "comm/comm.h"

namespace convoy {

/// Returns the trace as JSON on rank 0, and an empty text on other ranks. Each rank is shown as a
/// process with the launches of its thread, and with all-reduces from start to end. Collective.
std::string timeline_json(Comm&, const std::vector<Span>& of_this_rank, const Graph&, const BenchResult&);

}  // namespace convoy
