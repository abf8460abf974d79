// Traces whole training steps. Apart from the loop as profile.cpp is; the steps themselves are the
// loop's.
#include <algorithm>

#include "train/trainer.h"

namespace convoy {

std::vector<Span> Trainer::timeline(int64_t steps) {
    const Runnable& program = measured();
    std::vector<std::vector<Span>> traced(static_cast<size_t>(steps));
    comm_.barrier();  // hosts have clocks of their own
    const double origin = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    for (std::vector<Span>& spans : traced) {
        step_ = 0;  // the schedule and the order of samples end somewhere
        upload_counters(0);
        supply_batch();
        spans.reserve(4 * program.tape.size());
        backend_.trace(&spans);
        program.run();
    }
    backend_.trace(nullptr);
    comm_.activity().enter("host code between operations");

    std::vector<int64_t> order(traced.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
    const auto seconds = [&](int64_t i) { return traced[size_t(i)].back().end - traced[size_t(i)].front().begin; };
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return seconds(a) < seconds(b); });
    int64_t median = order[order.size() / 2];
    comm_.broadcast(&median, sizeof median);
    std::vector<Span> spans = std::move(traced[size_t(median)]);
    for (Span& s : spans) {
        s.begin -= origin;
        s.end -= origin;
    }
    return spans;
}

}  // namespace convoy
