// Traces whole training steps, outside of the training loop, like profile.cpp. The steps are those
// that the loop runs.
#include <algorithm>

#include "train/trainer.h"

namespace convoy {

std::vector<Span> Trainer::timeline(int64_t steps) {
    const Runnable& program = measured();
    std::vector<std::vector<Span>> traced(static_cast<size_t>(steps));
    comm_.barrier();  // a common origin, because hosts have different clocks
    const double origin = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    for (std::vector<Span>& spans : traced) {
        step_ = 0;  // repeats step 0, because schedule and sample order have an end
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
