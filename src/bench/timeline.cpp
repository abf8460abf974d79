#include "bench/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the trace events of one rank; the format has times in microseconds.
Json events_of(const std::vector<Span>& spans, double origin, int rank, const std::string& host, const Graph& graph) {
    Json events = Json::array();
    const auto named = [&](const char* what, int thread, const std::string& name) {
        events.push_back({{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}});
    };
    named("process_name", 0, "rank " + std::to_string(rank) + " on " + host);
    named("thread_name", 0, "compute");
    named("thread_name", 1, "all-reduce");
    int all_reduces = 0;
    for (const Span& s : spans) {
        const double begin = 1e6 * (s.begin - origin), end = 1e6 * (s.end - origin);
        const Json event = {{"name", s.id.name},
                            {"cat", class_of_launch(s.id, graph)},
                            {"pid", rank},
                            {"tid", s.resource == Resource::compute ? 0 : 1}};
        const auto add = [&](Json more) {
            Json whole = event;
            whole.update(more);
            events.push_back(whole);
        };
        if (s.resource == Resource::compute) {
            add({{"ph", "X"}, {"ts", begin}, {"dur", end - begin}});
        } else {  // all-reduces may overlap: write asynchronous events, paired by id
            const std::string id = std::to_string(rank) + "." + std::to_string(all_reduces++);
            add({{"ph", "b"}, {"id", id}, {"ts", begin}});
            add({{"ph", "e"}, {"id", id}, {"ts", end}});
        }
    }
    return events;
}

}  // namespace

std::string timeline_json(Comm& comm, const std::vector<Span>& spans, const Graph& graph, const BenchResult& result) {
    const std::vector<double> begins = comm.gather_all(std::vector<double>{spans.front().begin});
    const double origin = *std::min_element(begins.begin(), begins.end());
    const std::vector<std::string> ranks =
        comm.gather_all(events_of(spans, origin, comm.rank(), comm.host(), graph).dump());
    if (!comm.root()) return "";
    Json trace = {
        {"displayTimeUnit", "ms"}, {"otherData", Json::parse(bench_json(result))}, {"traceEvents", Json::array()}};
    for (const std::string& events : ranks)
        for (Json& event : Json::parse(events)) trace["traceEvents"].push_back(std::move(event));
    return trace.dump() + "\n";
}

}  // namespace convoy
