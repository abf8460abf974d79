// Checks and times the backend's all-reduce: MPI on CPUs, NCCL on GPUs.
#include "bench/all_reduces.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "base/clock.h"
#include "base/philox.h"
#include "base/text.h"

namespace convoy {
namespace {

/// Draws a number from 0 to 10; any rank can compute the draw of any other.
int draw(uint64_t seed, int64_t step, int rank) {
    return int(uniform_below(philox(seed, uint32_t(step), uint32_t(rank), 0, purpose_comm_test).word[0], 11));
}

std::function<void()> all_reduce_of(Backend& backend, const Tensor& t) {
    Tape tape;
    backend.allreduce(t, 0, tape);
    backend.wait_allreduce(tape);
    return backend.finish(std::move(tape));
}

/// Throws Exit::comm on all ranks if some rank has `trouble`. Every such rank reports its own.
void check_sums(Comm& comm, const std::string& trouble) {
    comm.together([&] {
        if (!trouble.empty())
            fail(Exit::comm,
                 "rank " + std::to_string(comm.rank()) + " on " + comm.host() + ": " + trouble +
                     "; memory, a link or the MPI or NCCL library is broken: try fewer hosts to find which");
    });
}

}  // namespace

void all_reduce_small_numbers(Comm& comm, Backend& backend, const SmallAllReduces& test) {
    const bool toy = test.lines == AllReduceLines::toy;
    const Buffer buffer = backend.allocate_reduced(stats_elements * sizeof(float));
    const auto all_reduce = all_reduce_of(backend, {buffer.get(), {1, 1, 1, int(stats_elements)}, DType::f32});
    for (int64_t step = 1; step <= test.steps; ++step) {
        const int mine = draw(test.seed, step, comm.rank());
        std::vector<float> values(stats_elements, float(mine));
        backend.upload(buffer.get(), values.data(), values.size() * sizeof(float));
        all_reduce();
        backend.synchronize();
        backend.download(values.data(), buffer.get(), values.size() * sizeof(float));
        comm.activity().set_step(step);
        int wanted = 0;
        for (int rank = 0; rank < comm.size(); ++rank) wanted += draw(test.seed, step, rank);
        // written by one call, so that lines of different ranks do not mix
        std::fputs(formatted("rank: %d, step: %lld, value: %d, reduced sum: %s.\n", comm.rank(),
                             (long long)(toy ? step - 1 : step), mine,
                             formatted(toy ? "%.1f" : "%g", double(values[0])).c_str())
                       .c_str(),
                   stdout);
        std::fflush(stdout);
        std::string trouble;
        for (float v : values)
            if (v != float(wanted))
                trouble = formatted("the all-reduce of step %lld gave %g, but the ranks drew %d in all",
                                    (long long)step, double(v), wanted);
        check_sums(comm, trouble);
        const Doing doing(comm.activity(), "sleep (--sleep)");
        std::this_thread::sleep_for(std::chrono::duration<double>(test.sleep));
    }
}

namespace {

/// Numbers that repeat with a prime period, so that an element in a wrong place is noticed. Their
/// sums are exact in f32.
class Pattern {
public:
    Pattern(Comm& comm, uint64_t seed) : mine_(elements), sum_(elements) {
        for (size_t i = 0; i < period; ++i) {
            mine_[i] = float(draw(seed, int64_t(i), comm.rank()));
            for (int rank = 0; rank < comm.size(); ++rank) sum_[i] += float(draw(seed, int64_t(i), rank));
        }
        for (size_t i = period; i < elements; ++i) {
            mine_[i] = mine_[i - period];
            sum_[i] = sum_[i - period];
        }
    }
    void write(Backend& backend, float* to, size_t count) const {
        for (size_t at = 0; at < count; at += elements)
            backend.upload(to + at, mine_.data(), std::min(elements, count - at) * sizeof(float));
    }
    int64_t wrong(Backend& backend, const float* sums, size_t count) const {
        std::vector<float> host(std::min(elements, count));
        int64_t wrong = 0;
        for (size_t at = 0; at < count; at += elements) {
            const size_t n = std::min(elements, count - at);
            backend.download(host.data(), sums + at, n * sizeof(float));
            for (size_t i = 0; i < n; ++i) wrong += host[i] != sum_[i];
        }
        return wrong;
    }

private:
    static constexpr size_t period = 509, elements = period * 512;  // moved in pieces of 1 MiB
    std::vector<float> mine_, sum_;
};

/// Returns the seconds per call of the slowest rank.
double time_of(Comm& comm, Backend& backend, const std::function<void()>& all_reduce, int64_t iterations) {
    for (int warmup = 0; warmup < 2; ++warmup) all_reduce();  // a GPU captures a tape when it runs for the second time
    backend.synchronize();
    comm.barrier();
    const auto start = Clock::now();
    for (int64_t i = 0; i < iterations; ++i) all_reduce();
    backend.synchronize();
    const std::vector<double> all = comm.gather_all(std::vector<double>{seconds_since(start) / double(iterations)});
    return *std::max_element(all.begin(), all.end());
}

void print_header(int ranks, int64_t iterations, bool expected) {
    std::printf(
        "# all-reduce in place over %d rank%s, %lld iterations a size; time: the slowest rank's mean; GB are 1e9 "
        "bytes%s\n",
        ranks, ranks == 1 ? " (nothing is sent)" : "s", (long long)iterations,
        expected ? "; ratio: the expected time over the measured" : "");
    std::printf("#%11s %12s %7s %7s %12s %8s %8s %8s%s\n", "size", "count", "type", "redop", "time", "algbw", "busbw",
                "wrong", expected ? "     expected    ratio" : "");
    std::printf("#%11s %12s %7s %7s %12s %8s %8s%s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)",
                expected ? "                  (us)" : "");
}

std::string expected_columns(double expected, double seconds) {
    if (std::isnan(expected)) return formatted(" %12s %8s", "-", "-");
    return formatted(" %12.2f %8.3f", 1e6 * expected, expected / seconds);
}

}  // namespace

std::vector<SizeTime> measure_all_reduces(Comm& comm, Backend& backend, const std::vector<size_t>& sizes,
                                          int64_t iterations, uint64_t seed, const ExpectedAllReduce& expected) {
    const size_t most = *std::max_element(sizes.begin(), sizes.end());
    Buffer buffer;
    comm.together([&] { buffer = backend.allocate_reduced(most); });
    auto* data = static_cast<float*>(buffer.get());
    const Pattern pattern(comm, seed);
    if (comm.root()) print_header(comm.size(), iterations, bool(expected));
    double bus = 0;
    std::vector<SizeTime> times;
    for (size_t bytes : sizes) {
        const size_t count = bytes / sizeof(float);
        const auto all_reduce = all_reduce_of(backend, {data, {1, 1, 1, int(count)}, DType::f32});
        pattern.write(backend, data, count);
        all_reduce();
        backend.synchronize();
        const int64_t wrong = pattern.wrong(backend, data, count), all_wrong = comm.sum(wrong);
        Tape clear;  // because repeated in-place sums would overflow f32
        backend.zero({data, {1, 1, 1, int(count)}, DType::f32}, clear);
        backend.finish(std::move(clear))();
        times.push_back({bytes, time_of(comm, backend, all_reduce, iterations)});
        const double algorithm = double(bytes) / times.back().seconds / 1e9;
        bus += algorithm * bus_factor(comm.size()) / double(sizes.size());
        if (comm.root()) {
            std::printf("%12zu %12zu %7s %7s %12.2f %8.3f %8.3f %8lld%s\n", bytes, count, "float", "sum",
                        1e6 * times.back().seconds, algorithm, algorithm * bus_factor(comm.size()),
                        (long long)all_wrong,
                        expected ? expected_columns(expected(bytes), times.back().seconds).c_str() : "");
            std::fflush(stdout);
        }
        check_sums(comm,
                   wrong ? formatted("%lld of %zu elements of the all-reduce are wrong", (long long)wrong, count) : "");
    }
    if (comm.root()) std::printf("# mean bus bandwidth: %.3f GB/s\n", bus);
    return times;
}

}  // namespace convoy
