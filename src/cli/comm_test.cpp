// convoy comm-test: are sums over ranks right, and how fast are they? Through the backend's own all-reduce: MPI on CPUs, NCCL on GPUs.
#include "cli/comm_test.h"

#include <chrono>
#include <cstdio>
#include <limits>
#include <numeric>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/philox.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/preflight.h"
#include "base/text.h"
#include "comm/watchdog.h"

namespace convoy {
namespace {
namespace po = boost::program_options;

/// From 0 to 10; any rank can draw for any other.
int draw(uint64_t seed, int64_t step, int rank) {
    return int(uniform_below(philox(seed, uint32_t(step), uint32_t(rank), 0, purpose_comm_test).word[0], 11));
}

std::function<void()> sum_over_ranks(Backend& backend, const Tensor& t) {
    Tape tape;
    backend.allreduce(t, tape);
    backend.wait_allreduce(tape);
    return backend.finish(std::move(tape));
}

/// What is wrong with the sums must be said by every rank that sees it, with the same code.
void check_sums(Comm& comm, const std::string& trouble) {
    comm.together([&] {
        if (!trouble.empty())
            fail(Exit::comm, "rank " + std::to_string(comm.rank()) + " on " + comm.host() + ": " + trouble +
                                 "; memory, a link or the MPI or NCCL library is broken: try fewer hosts to find which");
    });
}

}  // namespace

void sum_small_numbers(Comm& comm, Backend& backend, int64_t steps, double sleep, uint64_t seed) {
    const Buffer buffer = backend.allocate(stats_elements * sizeof(float));
    const auto sum = sum_over_ranks(backend, {buffer.get(), {1, 1, 1, int(stats_elements)}, DType::f32});
    for (int64_t step = 1; step <= steps; ++step) {
        const int mine = draw(seed, step, comm.rank());
        std::vector<float> values(stats_elements, float(mine));
        backend.upload(buffer.get(), values.data(), values.size() * sizeof(float));
        sum();
        backend.synchronize();
        backend.download(values.data(), buffer.get(), values.size() * sizeof(float));
        comm.activity().set_step(step);
        int wanted = 0;
        for (int rank = 0; rank < comm.size(); ++rank) wanted += draw(seed, step, rank);
        // In one piece, so that lines of different ranks do not mix.
        std::fputs(
            formatted("rank: %d, step: %lld, value: %d, reduced sum: %g.\n", comm.rank(), (long long)step, mine, double(values[0])).c_str(),
            stdout);
        std::fflush(stdout);
        std::string trouble;
        for (float v : values)
            if (v != float(wanted))
                trouble =
                    formatted("the all-reduce of step %lld gave %g, but the ranks drew %d in all", (long long)step, double(v), wanted);
        check_sums(comm, trouble);
        const Doing doing(comm.activity(), "sleep (--sleep)");
        std::this_thread::sleep_for(std::chrono::duration<double>(sleep));
    }
}

namespace {

/// Numbers that repeat with a prime period, so that an element that arrives in another's place is seen; their sums are exact in f32.
class Pattern {
public:
    Pattern(Comm& comm, uint64_t seed) : mine_(elements), sum_(elements) {
        for (size_t i = 0; i < period; ++i) {
            mine_[i] = float(draw(seed, int64_t(i), comm.rank()));
            for (int rank = 0; rank < comm.size(); ++rank) sum_[i] += float(draw(seed, int64_t(i), rank));
        }
        for (size_t i = period; i < elements; ++i) mine_[i] = mine_[i - period], sum_[i] = sum_[i - period];
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

/// Seconds a call, of the slowest rank.
double time_of(Comm& comm, Backend& backend, const std::function<void()>& sum, int64_t iterations) {
    for (int warmup = 0; warmup < 2; ++warmup) sum();  // a GPU captures a tape when it runs for the second time
    backend.synchronize();
    comm.barrier();
    const auto start = Clock::now();
    for (int64_t i = 0; i < iterations; ++i) sum();
    backend.synchronize();
    const std::vector<double> all = comm.gather_all(std::vector<double>{seconds_since(start) / double(iterations)});
    return *std::max_element(all.begin(), all.end());
}

}  // namespace

void measure_sums(Comm& comm, Backend& backend, const std::vector<size_t>& sizes, int64_t iterations, uint64_t seed) {
    const size_t most = *std::max_element(sizes.begin(), sizes.end());
    Buffer buffer;
    comm.together([&] { buffer = backend.allocate(most); });
    auto* data = static_cast<float*>(buffer.get());
    const Pattern pattern(comm, seed);
    if (comm.root())
        std::printf(
            "# all-reduce in place over %d rank%s, %lld iterations a size; time: the slowest rank's mean; GB are 1e9 bytes\n"
            "#%11s %12s %7s %7s %12s %8s %8s %8s\n#%11s %12s %7s %7s %12s %8s %8s\n",
            comm.size(), comm.size() == 1 ? " (nothing is sent)" : "s", (long long)iterations, "size", "count", "type", "redop", "time",
            "algbw", "busbw", "wrong", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)");
    double bus = 0;
    for (size_t bytes : sizes) {
        const size_t count = bytes / sizeof(float);
        const auto sum = sum_over_ranks(backend, {data, {1, 1, 1, int(count)}, DType::f32});
        pattern.write(backend, data, count);
        sum();
        backend.synchronize();
        const int64_t wrong = pattern.wrong(backend, data, count), all_wrong = comm.sum(wrong);
        Tape clear;  // sums of sums would grow beyond f32
        backend.zero({data, {1, 1, 1, int(count)}, DType::f32}, clear);
        backend.finish(std::move(clear))();
        const double seconds = time_of(comm, backend, sum, iterations), algorithm = double(bytes) / seconds / 1e9;
        bus += algorithm * bus_factor(comm.size()) / double(sizes.size());
        if (comm.root()) {
            std::printf("%12zu %12zu %7s %7s %12.2f %8.3f %8.3f %8lld\n", bytes, count, "float", "sum", 1e6 * seconds, algorithm,
                        algorithm * bus_factor(comm.size()), (long long)all_wrong);
            std::fflush(stdout);
        }
        check_sums(comm, wrong ? formatted("%lld of %zu elements of the all-reduce are wrong", (long long)wrong, count) : "");
    }
    if (comm.root()) std::printf("# mean bus bandwidth: %.3f GB/s\n", bus);
}

std::vector<size_t> sizes_of(const std::string& text) {
    constexpr size_t least = 4, most = size_t(4) << 30;  // an MPI call counts elements in an int
    const auto refuse = [&]() {
        fail(Exit::usage, "--bytes " + text + ": write a size from 4 to 4G or a range, as in 64M or 1K..1G");
    };
    const auto size = [&](const std::string& word) {
        size_t used = 0;
        double number = 0;
        try {
            number = std::stod(word, &used);
        } catch (const std::exception&) {
            refuse();
        }
        const std::string unit = word.substr(used);
        const double factor = unit.empty() ? 1 : unit == "K" ? 1 << 10 : unit == "M" ? 1 << 20 : unit == "G" ? 1 << 30 : 0;
        if (!(number * factor >= double(least) && number * factor <= double(most))) refuse();
        return (size_t(number * factor) + 3) / 4 * 4;
    };
    const size_t dots = text.find("..");
    const size_t first = size(text.substr(0, dots)), last = dots == std::string::npos ? first : size(text.substr(dots + 2));
    if (first > last) refuse();
    std::vector<size_t> sizes;
    for (size_t s = first; s <= last; s *= 2) sizes.push_back(s);
    return sizes;
}

int comm_test(Comm& comm, const std::vector<std::string>& args) {
    std::string device, bytes;
    int64_t steps = 0, seed = 0, iterations = 0;
    double sleep = 0;
    bool share = false, help = false;
    std::vector<size_t> sizes;
    po::options_description options("options of comm-test", 140);
    options.add_options()  //
        ("steps", po::value<int64_t>()->value_name("N"),
         "sums of one small number a rank, each printed and checked by every rank (default 100, or 0 with --bytes)")                      //
        ("sleep", po::value<double>(&sleep)->default_value(0)->value_name("S"), "seconds behind each step")                               //
        ("bytes", po::value<std::string>(&bytes)->value_name("SIZES"), "bandwidth: one size, or a range of doubled sizes, as in 1K..1G")  //
        ("iterations", po::value<int64_t>()->default_value(20)->value_name("N"), "timed all-reduces a size")                              //
        ("seed", po::value<int64_t>()->default_value(1)->value_name("N"), "of the numbers")                                               //
        ("device", po::value<std::string>(&device)->default_value("auto")->value_name("KIND"), "auto, cuda (NCCL) or cpu (MPI)")          //
        ("share-device", po::bool_switch(&share), "let several ranks use one GPU; sums then go through the host")                         //
        ("help", po::bool_switch(&help), "print this");
    comm.together([&] {
        const po::variables_map values = parse(options, args);
        if (help) return;
        if (!bytes.empty()) sizes = sizes_of(bytes);
        steps = values.count("steps") ? value_in_range(values, "steps", 0, 1'000'000'000) : sizes.empty() ? 100 : 0;
        iterations = value_in_range(values, "iterations", 1, 1'000'000);
        seed = value_in_range(values, "seed", 0, std::numeric_limits<int64_t>::max());
        if (!(sleep >= 0 && sleep <= 60)) fail(Exit::usage, formatted("--sleep %g: must be from 0 to 60 seconds", sleep));
        check_world(comm);
    });
    if (help) {
        if (comm.root())
            std::printf("usage: convoy comm-test [--steps N] [--bytes 1K..1G] [options]\n%s",
                        (std::ostringstream() << options).str().c_str());
        return 0;
    }
    Watchdog watchdog(comm, 300);
    BackendOptions how;
    how.threads = 1;
    how.share_device = share;
    how.capture = comm.size() > 1;  // of one rank there is nothing to capture
    const std::unique_ptr<Backend> backend = make_backend(device, how, comm);
    const std::vector<std::string> places = comm.gather_all(comm.host() + ": " + backend->device());
    if (comm.root())
        for (int rank = 0; rank < comm.size(); ++rank) std::printf("# rank %d on %s\n", rank, places[size_t(rank)].c_str());
    std::fflush(stdout);
    if (steps > 0) sum_small_numbers(comm, *backend, steps, sleep, uint64_t(seed));
    if (!sizes.empty()) measure_sums(comm, *backend, sizes, iterations, uint64_t(seed));
    return 0;
}

}  // namespace convoy
