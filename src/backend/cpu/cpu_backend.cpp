// Construction, memory, and the loop that runs a tape.
#include "backend/cpu/cpu_backend.h"

#include <immintrin.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "backend/cpu/exact_adder.h"
#include "backend/cpu/gradient_all_reduce.h"
#include "backend/cpu/primitives.h"
#include "backend/cpu/rows.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/activity.h"
#include "comm/binding.h"
#include "comm/node_memory.h"

namespace convoy {
namespace cpu {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

ThreadCount::ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadCount::~ThreadCount() { omp_set_num_threads(before_); }

namespace {

std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "CPU";
}

std::string onednn_version() {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

const char* isa_name() {
    using Isa = dnnl::cpu_isa;
    switch (dnnl::get_effective_cpu_isa()) {
        case Isa::avx512_core_amx_fp16:
        case Isa::avx512_core_amx: return "AMX";
        case Isa::avx512_core_fp16:
        case Isa::avx512_core_bf16: return "AVX-512 bf16";
        case Isa::avx512_core_vnni:
        case Isa::avx512_core: return "AVX-512";
        case Isa::avx2_vnni_2:
        case Isa::avx2_vnni:
        case Isa::avx2: return "AVX2";
        default: return "SSE4.1";
    }
}

/// Makes numbers below 1e-38 zero in this thread. Otherwise steps with vanishing gradients would
/// take a hundred times longer.
void flush_denormals() {
    _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ (flush to zero) and DAZ (denormals are zero)
}

}  // namespace

Capabilities capabilities() {
    using Isa = dnnl::cpu_isa;
    const Isa isa = dnnl::get_effective_cpu_isa();
    const bool amx = isa == Isa::avx512_core_amx || isa == Isa::avx512_core_amx_fp16;
    return {.avx512 = has_avx512(),
            .bf16 = amx || isa == Isa::avx512_core_bf16 || isa == Isa::avx512_core_fp16,
            .amx = amx};
}

CpuBackend::CpuBackend(const BackendOptions& options, Comm& comm, const std::string& placement,
                       std::optional<MemoryBudget> budget)
    : comm_(comm),
      options_(options),
      budget_(std::make_shared<MemoryBudget>(budget ? *std::move(budget) : memory_budget(comm))),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      temporary_(std::make_shared<Temporary>(Temporary{*budget_})),
      all_reduce_(std::make_shared<GradientAllReduce>(comm)),
      adder_(std::make_shared<ExactAdder>()),
      clock_(std::make_shared<StepClock>()),
      has_(capabilities()) {
    // Not counted elsewhere: oneDNN's compiled kernels, buffers of MPI and HDF5, metrics, and the
    // stacks of OpenMP's and Convoy's threads.
    constexpr size_t uncounted = size_t(32) << 20, stack = size_t(8) << 20, own_threads = 3;
    budget_->take_addresses((size_t(std::max(options.threads, 1)) + own_threads) * stack);
    budget_->take_or_fail(uncounted, "what this program needs to begin", "use fewer ranks per node");
    omp_set_dynamic(0);
    omp_set_num_threads(options.threads);  // oneDNN uses the same OpenMP threads
#pragma omp parallel
    {
        flush_denormals();
#pragma omp single
        threads_ = omp_get_num_threads();  // fewer than asked for under OMP_THREAD_LIMIT
    }
    omp_set_num_threads(threads_);
    facts_.device = facts_.kind = cpu_model() + " (" + isa_name() + "), oneDNN " + onednn_version();
    facts_.threads = facts_.lanes = threads_;
    facts_.placement = placement;
    facts_.synchronous = true;
}

CpuBackend::CpuBackend(CpuBackend& whole, int index)
    : comm_(whole.comm_),
      options_(whole.options_),
      budget_(whole.budget_),
      engine_(whole.engine_),
      stream_(engine_),
      temporary_(std::make_shared<Temporary>(Temporary{*budget_})),
      all_reduce_(whole.all_reduce_),
      adder_(whole.adder_),
      clock_(whole.clock_),
      index_(index),
      has_(whole.has_) {
    facts_ = whole.facts_;
    facts_.threads = facts_.lanes = 1;
}

CpuBackend::~CpuBackend() = default;

Buffer CpuBackend::allocate(size_t bytes) {
    const size_t rounded = whole_pages(std::max<size_t>(bytes, 1));
    budget_->take_or_fail(rounded, "a block of tensors", "use a smaller batch or fewer ranks per node");
    void* block = allocate_pages(rounded);
    if (!block) throw std::bad_alloc();
    if (options_.dry_run) return Buffer(block, std::free);
    char* bytes_of = static_cast<char*>(block);
#pragma omp parallel for schedule(static)  // each page is first touched by the thread that will use it
    for (size_t at = 0; at < rounded; at += 4096) std::memset(bytes_of + at, 0, std::min<size_t>(4096, rounded - at));
    return Buffer(block, std::free);
}

void CpuBackend::set_aside(size_t bytes, const std::string& what_for, MemoryOwner owner) {
    budget_->take_or_fail(bytes, what_for, "use a smaller batch or model, or fewer ranks per node", owner);
}

Buffer CpuBackend::resident(void* host, size_t bytes) {
    budget_->take_shared(bytes);
    return Buffer(host, [](void*) {});
}

SystemSample CpuBackend::sample() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
    const double time = now(), used = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    SystemSample s;
    s.utilisation = (used - std::exchange(used_, used)) / ((time - std::exchange(sampled_, time)) * threads_);
    std::ifstream pages("/proc/self/statm");
    if (size_t size = 0, resident = 0; pages >> size >> resident)
        s.memory_bytes = double(resident) * double(sysconf(_SC_PAGESIZE));
    return s;
}

void CpuBackend::upload(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);  // pointers may be null if there are no bytes
}
void CpuBackend::download(void* to, const void* from, size_t bytes) { upload(to, from, bytes); }

void CpuBackend::zero(Tensor t, Tape& tape) {
    tape.push_back(
        {named_launch(LaunchPhase::zero, "zero"), Resource::compute, [t] { std::memset(t.data, 0, t.bytes()); }});
}

void CpuBackend::forward(const Op& op, const OpArguments& b, Tape& tape) {
    const ThreadCount own(threads_);  // oneDNN fixes an op's number of threads when it creates it
    std::visit([&](const auto& o) { forward(o, b, tape); }, op);
}

void CpuBackend::backward(const Op& op, const OpArguments& b, Tape& tape) {
    const ThreadCount own(threads_);
    std::visit([&](const auto& o) { backward(o, b, tape); }, op);
}

void CpuBackend::run_launch(const Launch& launch) {
    while (now() < paused_until_.load(std::memory_order_relaxed))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm_.activity().enter(launch.id.name.c_str());
    const double begin = trace_ ? now() : 0;
    launch.run();
    if (trace_) trace_->push_back({launch.id, Resource::compute, begin, now()});
    all_reduce_->progress();
}

std::function<void()> CpuBackend::finish(Tape tape) {
    return [this, tape = std::move(tape)] {
        for (const Launch& launch : tape) run_launch(launch);
        comm_.activity().enter("host code between operations");  // the tape and its names may be destroyed
    };
}

Backend& CpuBackend::lane(int index) {
    if (threads_ == 1) return *this;
    while (int(lanes_.size()) <= index) lanes_.emplace_back(new CpuBackend(*this, int(lanes_.size())));
    return *lanes_[index];
}

// Only the thread of the first lane may call MPI, so only it makes progress.
void CpuBackend::side_by_side(const std::vector<Tape>& tapes, Tape& to) {
    const int lanes = std::min(threads_, int(tapes.size()));
    to.push_back({named_launch(LaunchPhase::other, "logical ranks"), Resource::compute, [this, tapes, lanes] {
#pragma omp parallel num_threads(lanes)
                      {
                          const ThreadCount one(1);
                          const int lane = omp_get_thread_num();
                          for (size_t i = size_t(lane); i < tapes.size(); i += size_t(lanes))
                              for (const Launch& launch : tapes[i]) lane == 0 ? run_launch(launch) : launch.run();
                      }
                  }});
}

std::vector<double> CpuBackend::time_launches(const Tape& tape) {
    std::vector<double> seconds;
    for (const Launch& launch : tape) {
        comm_.activity().enter(launch.id.name.c_str());
        const Clock::time_point start = Clock::now();
        launch.run();
        seconds.push_back(seconds_since(start));
    }
    return seconds;
}

void CpuBackend::trace(std::vector<Span>* to) {
    trace_ = to;
    all_reduce_->trace(to);
}

}  // namespace cpu

Versions cpu_versions() { return {{"onednn", cpu::onednn_version()}}; }

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, Comm& comm) {
    BackendOptions own = options;
    std::string placement = bind_rank(comm, "", options.bind), quota;
    const int fair = comm.fair_threads(&quota);
    if (own.threads == 0) own.threads = fair;
    if (options.threads == 0 && !quota.empty()) placement += ", limited by " + quota;
    const MemoryBudget budget = memory_budget(comm);
    std::unique_ptr<Backend> backend;
    comm.together([&] {
        const std::string asked = "--precision " + std::string(name_of(options.precision)) + ": ";
        if (options.precision != Precision::f32 && options.precision != Precision::bf16)
            fail(Exit::usage, asked + "CPUs compute in f32 or bf16; choose one of these, or use --device cuda");
        if (options.precision == Precision::bf16 && !cpu::has_avx512())
            fail(Exit::usage, asked + "this processor has no AVX-512 (" + comm.host() + "); use f32");
        backend = std::make_unique<cpu::CpuBackend>(own, comm, placement, budget);
    });
    return backend;
}

}  // namespace convoy
