#include "train/profile.h"

#include <algorithm>

#include "base/quantile.h"

namespace convoy {

namespace {

/// Returns a tape in which each all-reduce and the wait for it are one launch.
Tape without_overlap(Backend& backend, const Tape& tape) {
    Tape waiting, launches;
    backend.wait_allreduce(waiting);
    for (const Launch& launch : tape) {
        if (launch.resource == Resource::compute) {
            launches.push_back(launch);
            continue;
        }
        launches.push_back({launch.id, launch.resource, [run = launch.run, waiting] {
                                run();
                                for (const Launch& wait : waiting) wait.run();
                            }});
    }
    return launches;
}

}  // namespace

std::vector<LaunchTime> profile(Comm& comm, Backend& backend, TrainingPrograms& programs, int64_t steps) {
    const TrainingPrograms::Runnable& program = programs.measured();
    Tape whole = without_overlap(backend, program.tape);
    whole.append(program.ending);
    std::vector<std::vector<double>> times(whole.size());
    const Phase phase(comm.activity(), "profile", "step", 0, steps);
    for (int64_t s = 0; s < steps; ++s) {
        comm.activity().advance(s);
        programs.begin(0);
        programs.supply_batch(0);
        comm.barrier();  // so that the first all-reduce does not include waiting for a late rank
        const std::vector<double> seconds = backend.time_launches(whole);
        for (size_t i = 0; i < whole.size(); ++i) times[i].push_back(seconds[i]);
    }
    std::vector<LaunchTime> medians;
    for (size_t i = 0; i < whole.size(); ++i) medians.push_back({whole[i].id, median(times[i])});
    comm.activity().enter("host code between operations");
    return medians;
}

std::vector<Span> timeline(Comm& comm, Backend& backend, TrainingPrograms& programs, int64_t steps) {
    const TrainingPrograms::Runnable& program = programs.measured();
    StateSnapshot snapshot(backend, programs.state());  // empty: no snapshot is made
    std::vector<std::vector<Span>> traced(static_cast<size_t>(steps));
    comm.barrier();  // a common origin, because hosts have different clocks
    const double origin = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    for (std::vector<Span>& spans : traced) {
        programs.begin(0);
        spans.reserve(4 * program.tape.size());
        backend.trace(&spans);
        programs.run(program, 0, snapshot);
    }
    backend.trace(nullptr);
    comm.activity().enter("host code between operations");

    std::vector<int64_t> order(traced.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
    const auto seconds = [&](int64_t i) { return traced[i].back().end - traced[i].front().begin; };
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return seconds(a) < seconds(b); });
    int64_t median = order[order.size() / 2];
    comm.broadcast(&median, sizeof median);
    std::vector<Span> spans = std::move(traced[median]);
    for (Span& s : spans) {
        s.begin -= origin;
        s.end -= origin;
    }
    return spans;
}

}  // namespace convoy
