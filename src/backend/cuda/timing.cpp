#include "backend/cuda/timing.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/captured_tape.h"

namespace convoy::cuda {
namespace {

constexpr int timed_runs = 5;
constexpr size_t timed_together = 4, most_turns = 16;

}  // namespace

size_t turns(size_t bytes, size_t cache) { return std::min(2 * cache / std::max<size_t>(bytes, 1) + 1, most_turns); }

float microseconds_of(const std::vector<std::function<void()>>& works, cudaStream_t stream) {
    works[0]();  // loads the kernels
    // Like the launches of a program, several run from one graph, so that the host does not matter.
    const size_t runs = std::max(timed_together, works.size());
    const ExecutableGraph together = capture(stream, [&] {
        for (size_t i = 0; i < runs; ++i) works[i % works.size()]();
    });
    const Event start(true), stop(true);
    float least = std::numeric_limits<float>::max();
    for (int run = -1; run < timed_runs; ++run) {
        check(cudaEventRecord(start.get(), stream), "timing a plan");
        check(cudaGraphLaunch(together.get(), stream), "timing a plan");
        check(cudaEventRecord(stop.get(), stream), "timing a plan");
        check(cudaEventSynchronize(stop.get()), "timing a plan");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "timing a plan");
        if (run >= 0) least = std::min(least, 1000 * milliseconds / float(runs));
    }
    return least;
}

}  // namespace convoy::cuda
