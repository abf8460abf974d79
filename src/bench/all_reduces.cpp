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
#include "bench/nccl_tests.h"

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

std::function<void()> all_reduce_into(Backend& backend, const Tensor& from, const Tensor& to) {
    Tape tape;
    backend.allreduce_into(from, to, tape);
    backend.wait_allreduce(tape);
    return backend.finish(std::move(tape));
}

}  // namespace

void check_sums(Comm& comm, const std::string& trouble) {
    comm.together([&] {
        if (!trouble.empty())
            fail(Exit::comm,
                 "rank " + std::to_string(comm.rank()) + " on " + comm.host() + ": " + trouble +
                     "; memory, a link or the MPI or NCCL library is broken: try fewer hosts to find which");
    });
}

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
    static constexpr size_t period = 509, elements = period * 512;  // copied in blocks of almost 1 MiB
    std::vector<float> mine_, sum_;
};

/// Returns the seconds per call of the slowest rank.
double time_of(Comm& comm, Backend& backend, const std::function<void()>& all_reduce, int64_t iterations) {
    for (int warmup = 0; warmup < all_reduce_warmup; ++warmup) all_reduce();
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

std::string plain_row(const SizeTime& s, int ranks, const ExpectedAllReduce& expected) {
    const double algorithm = double(s.bytes) / s.seconds / 1e9;
    return formatted("%12zu %12zu %7s %7s %12.2f %8.3f %8.3f %8lld%s\n", s.bytes, s.bytes / sizeof(float), "float",
                     "sum", 1e6 * s.seconds, algorithm, algorithm * bus_factor(ranks), (long long)s.wrong,
                     expected ? expected_columns(expected(s.bytes), s.seconds).c_str() : "");
}

/// Measures one size after the other in the same buffers, and counts failures.
class SizeMeasurement {
public:
    SizeMeasurement(Comm& comm, Backend& backend, const AllReduceSizes& test)
        : comm_(comm), backend_(backend), test_(test), pattern_(comm, test.seed) {
        const size_t most = *std::max_element(test.sizes.begin(), test.sizes.end());
        comm.together([&] {
            in_place_ = backend.allocate_reduced(most);
            if (test.lines == AllReduceLines::nccl_tests) from_ = backend.allocate_reduced(most);
        });
    }
    SizeTime measure(size_t bytes) {
        const Tensor data = tensor(in_place_, bytes);
        SizeTime s{bytes, 0};
        if (from_) {
            const Tensor from = tensor(from_, bytes);
            pattern_.write(backend_, from.as<float>(), from.count());
            const auto all_reduce = all_reduce_into(backend_, from, data);
            s.out_of_place_wrong = check(all_reduce, data);
            s.out_of_place_seconds = time_of(comm_, backend_, all_reduce, test_.iterations);
        }
        const auto all_reduce = all_reduce_of(backend_, data);
        pattern_.write(backend_, data.as<float>(), data.count());
        s.wrong = check(all_reduce, data);
        Tape clear;  // because repeated in-place sums would overflow f32
        backend_.zero(data, clear);
        backend_.finish(std::move(clear))();
        s.seconds = time_of(comm_, backend_, all_reduce, test_.iterations);
        return s;
    }
    int64_t failures = 0;  ///< of this rank
    std::string trouble;   ///< this rank's first wrong elements

private:
    static Tensor tensor(const Buffer& buffer, size_t bytes) {
        return {buffer.get(), {1, 1, 1, int(bytes / sizeof(float))}, DType::f32};
    }
    /// Returns the number of wrong elements on all ranks.
    int64_t check(const std::function<void()>& all_reduce, const Tensor& sums) {
        all_reduce();
        backend_.synchronize();
        const int64_t wrong = pattern_.wrong(backend_, sums.as<float>(), sums.count());
        failures += wrong > 0;
        if (wrong > 0 && trouble.empty())
            trouble =
                formatted("%lld of %zu elements of the all-reduce are wrong", (long long)wrong, size_t(sums.count()));
        return comm_.sum(wrong);
    }

    Comm& comm_;
    Backend& backend_;
    const AllReduceSizes& test_;
    const Pattern pattern_;
    Buffer in_place_, from_;  // from_: null unless all-reduces out of place are measured
};

}  // namespace

double mean_bus_bandwidth(const std::vector<SizeTime>& sizes, int ranks) {
    double sum = 0;
    int64_t count = 0;
    for (const SizeTime& s : sizes)
        for (const double seconds : {s.seconds, s.out_of_place_seconds})
            if (!std::isnan(seconds)) {
                sum += double(s.bytes) / seconds * bus_factor(ranks);
                ++count;
            }
    return sum / double(count);
}

SizeTimes measure_all_reduces(Comm& comm, Backend& backend, const AllReduceSizes& test) {
    const bool plain = test.lines != AllReduceLines::nccl_tests;
    SizeMeasurement measurement(comm, backend, test);
    if (comm.root() && plain) print_header(comm.size(), test.iterations, bool(test.expected));
    SizeTimes times;
    for (const size_t bytes : test.sizes) {
        times.sizes.push_back(measurement.measure(bytes));
        const SizeTime& s = times.sizes.back();
        const std::string row = plain ? plain_row(s, comm.size(), test.expected) : nccl_tests_row(s, comm.size());
        if (comm.root()) std::fputs(row.c_str(), stdout);
        std::fflush(stdout);
        if (plain) check_sums(comm, measurement.trouble);
    }
    times.failures = comm.sum(measurement.failures);
    times.trouble = measurement.trouble;
    if (comm.root() && plain)
        std::printf("# mean bus bandwidth: %.3f GB/s\n", mean_bus_bandwidth(times.sizes, comm.size()) / 1e9);
    return times;
}

}  // namespace convoy
