#include "backend/cpu/conv_trial.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/conv_calls.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"
#include "base/memory.h"

namespace convoy::cpu {
namespace {

/// Fills with cheap random numbers that are the same in each run.
template <class E> void fill(E* to, int64_t n) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t mixed = uint32_t(i) * 2654435761u;
        assign(to[i], float(int32_t(mixed ^ mixed >> 15)) * 0x1p-31f);
    }
}

/// The two shortest runs of an algorithm, in seconds. If they agree, nothing disturbed them.
struct Shortest {
    double first = INFINITY, second = INFINITY;
    void add(double seconds) {
        second = std::min(second, std::max(first, seconds));
        first = std::min(first, seconds);
    }
    bool agree() const { return std::isfinite(second) && second <= 1.1 * first; }
};

/// Times algorithms alternately until the times of each agree, so that other programs on these
/// cores do not decide. An algorithm that is far behind is not run again.
ConvTimes race(const std::vector<ConvBy>& algorithms, const std::function<std::function<void()>(ConvBy)>& runnable) {
    constexpr int rounds = 12;
    constexpr double far = 1.5;
    std::map<ConvBy, std::function<void()>> run;
    for (const ConvBy by : algorithms) {
        run[by] = runnable(by);
        run[by]();  // oneDNN compiles, and memory is touched
    }
    std::map<ConvBy, Shortest> seen;
    double best = INFINITY;
    for (int round = 0; round < rounds; ++round)
        for (const ConvBy by : algorithms) {
            Shortest& s = seen[by];
            if (round > 0 && (s.agree() || s.first > far * best)) continue;
            const double begin = now();
            run[by]();
            s.add(now() - begin);
            best = std::min(best, s.first);
        }
    ConvTimes times;
    for (const auto& [by, shortest] : seen) times[by] = shortest.first;
    return times;
}

}  // namespace

ConvTrial::ConvTrial(dnnl::engine engine, dnnl::stream stream, MemoryBudget& budget)
    : engine_(std::move(engine)),
      stream_(std::move(stream)),
      budget_(budget),
      temporary_(std::make_shared<Temporary>(Temporary{budget})) {}

ConvTrial::~ConvTrial() { budget_.give(temporary_->bytes); }

Tensor ConvTrial::random(const Shape& shape, DType dtype, size_t slot) {
    Slot& s = slots_[slot];
    Tensor t{nullptr, shape, dtype};
    if (t.bytes() > s.bytes) {
        s.bytes = whole_pages(t.bytes());
        s.block.reset();
        s.block = Buffer(allocate_pages(s.bytes), std::free);
        if (!s.block) throw std::bad_alloc();
    }
    t.data = s.block.get();
    with_type(dtype, [&]<class E>(E) { fill(t.as<E>(), int64_t(t.count())); });
    return t;
}

std::function<void()> ConvTrial::runnable(const ConvSpec& s, const ConvCall& call, ConvBy by) {
    Calls calls(engine_, stream_, temporary_);
    append(calls, engine_, s.direction, call, by);
    Tape tape;
    calls.onto(tape, named_launch(s.direction, "trial"));
    return tape.back().run;
}

ConvTimes ConvTrial::measure(const ConvSpec& wanted, const Capabilities& has, double flops) {
    constexpr size_t enough = size_t(1) << 30;  // bytes
    const std::vector<ConvBy> able = candidates(wanted, has);
    if (budget_.left() < enough || able.size() == 1) return {};
    const ConvSpec s = wanted.representative();
    const ThreadCount own(s.threads);
    const auto batched = [&](const Shape& one) { return Shape{s.images(flops), one.h, one.w, one.c}; };
    const bool biased = s.direction == LaunchPhase::forward && s.op.bias != none;
    const ConvCall call{.op = s.op,
                        .x = random(batched(s.x), s.dtype, 0),
                        .y = random(batched(s.y), s.dtype, 1),
                        .weight = random({s.y.c, s.op.kernel, s.op.kernel, s.x.c}, DType::f32, 2),
                        .bias = biased ? random({1, 1, 1, s.y.c}, DType::f32, 3) : Tensor{},
                        .add = s.add,
                        .training = true,
                        .threads = s.threads};
    return race(able, [&](ConvBy by) { return runnable(s, call, by); });
}

}  // namespace convoy::cpu
