// The trace of a step, event by event.
#include "bench/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/models.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

TEST(Timeline, EventsBeginAndEndWhereTheirSpansDo) {
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    const std::vector<Span> spans = {
        {named_launch(LaunchPhase::gather, "gather"), Resource::compute, 100.0, 100.001},
        {named_launch(LaunchPhase::all_reduce, "sum a"), Resource::communication, 100.002, 100.005},
        {named_launch(LaunchPhase::all_reduce, "sum b"), Resource::communication, 100.003, 100.004},
        {named_launch(LaunchPhase::optimizer, "optimizer"), Resource::compute, 100.006, 100.0075}};
    const auto trace = nlohmann::json::parse(timeline_json(test_comm(), spans, graph, {}));
    struct Event {
        const char *phase, *name, *id;
        double at, duration;  ///< microseconds; 0: the event has none
    };
    const Event wanted[] = {{"X", "gather", "", 0, 1000},   {"b", "sum a", "0.0", 2000, 0},
                            {"e", "sum a", "0.0", 5000, 0}, {"b", "sum b", "0.1", 3000, 0},
                            {"e", "sum b", "0.1", 4000, 0}, {"X", "optimizer", "", 6000, 1500}};
    size_t found = 0;
    for (const auto& event : trace["traceEvents"]) {
        if (event["ph"] == "M") continue;
        ASSERT_LT(found, std::size(wanted));
        const Event& w = wanted[found++];
        EXPECT_EQ(event["ph"], w.phase);
        EXPECT_EQ(event["name"], w.name);
        EXPECT_EQ(event["pid"], 0);
        EXPECT_EQ(event["tid"], w.phase[0] == 'X' ? 0 : 1);
        EXPECT_NEAR(event["ts"].get<double>(), w.at, 1e-3) << w.name;
        if (w.phase[0] == 'X')
            EXPECT_NEAR(event["dur"].get<double>(), w.duration, 1e-3);
        else
            EXPECT_EQ(event["id"], w.id);
    }
    EXPECT_EQ(found, std::size(wanted));
}

}  // namespace
}  // namespace convoy::test
