// Construction, selection of plans, running tapes, and functions that the ops' files share.
#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <utility>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/transport.h"
#include "backend/gpu/all_reduces.h"
#include "backend/gpu/plan_list.h"
#include "backend/gpu/precisions.h"
#include "comm/activity.h"
#include "comm/binding.h"
#include "comm/comm.h"

namespace convoy::cuda {

CudaBackend::CudaBackend(const BackendOptions& options, const DeviceInfo& info, Comm& comm, int threads,
                         const std::string& placement)
    : comm_(comm),
      options_(options),
      info_(info),
      nvml_(info.bus),
      communication_(true),
      workspace_(std::make_shared<Workspace>()),
      side_workspace_(std::make_shared<Workspace>()),
      gradient_workspace_(std::make_shared<Workspace>()),
      cudnn_(compute_.get()),
      plans_(cudnn_, compute_.get(), plan_options(threads)) {
    const std::string serial = nvml_.serial(), cudnn = "cuDNN " + Cudnn::version();
    facts_ = {
        .device = info.name + " (compute capability " + capability_text(info.capability) + ", " +
                  std::to_string(info.memory >> 30) + " GiB, " + info.bus + "), " + cudnn + ", " +
                  name_of(options.precision),
        .kind = info.name + ", " + cudnn,  // plans are chosen per kind
        .versions = cuda::versions(),
        .identity = {{"gpu", info.name}, {"gpu_serial", serial.empty() ? "unknown" : serial}, {"gpu_uuid", info.uuid}},
        .placement = placement,
        .links = nvml_.links(),
        .channel_multiple = tensor_core_multiple};
    plans_.let_save(comm.root());
    times_ = allocate(sizeof(kernels::StepTimes));
    loss_scale_ = allocate(sizeof(kernels::LossScale));
    kernels::LossScale start;
    if (options.precision != Precision::f16) start.scale = 1;
    upload(loss_scale_.get(), &start, sizeof start);
}

CudaBackend::~CudaBackend() = default;

Plans::Options CudaBackend::plan_options(int threads) {
    return {.path = cache_path(info_.name, Cudnn::version()),
            .seconds = options_.tune_seconds,
            .cache = info_.l2,
            .alive =
                [this] {
                    const double waited = barrier_ ? barrier_->keep_alive() : 0;
                    comm_.activity().enter("choosing cuDNN plans");
                    return waited;
                },
            .threads = threads};
}

std::shared_ptr<void> CudaBackend::range(const std::string& name) const {
    return std::make_shared<Range>(name.c_str());
}

Tensor CudaBackend::kept_state() {
    // Only the scale is kept. The count of good steps since it last changed restarts at 0.
    static_assert(offsetof(kernels::LossScale, scale) == 0);
    return {loss_scale_.get(), {1, 1, 1, options_.precision == Precision::f16 ? 1 : 0}, DType::f32};
}

void CudaBackend::synchronize() {
    const Doing doing(comm_.activity(), "waiting for the GPU");
    if (!all_reduce_) return check(cudaStreamSynchronize(compute_.get()), "a step");
    poll([this] { return cudaStreamQuery(compute_.get()); });
}

std::function<void()> CudaBackend::mark() {
    auto here = std::make_shared<Event>();
    check(cudaEventRecord(here->get(), compute_.get()), "marking a step");
    return [this, here] {
        const Doing doing(comm_.activity(), "waiting for the GPU");
        if (!all_reduce_) return check(cudaEventSynchronize(here->get()), "a step");
        poll([&] { return cudaEventQuery(here->get()); });
    };
}

void CudaBackend::poll(const std::function<cudaError_t()>& query) {
    // An all-reduce whose peer is gone never ends; only NCCL's error state shows it.
    for (cudaError_t e; (e = query()) != cudaSuccess;) {
        if (e != cudaErrorNotReady) check(e, "a step");
        all_reduce_->poll();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

std::shared_ptr<const Algorithms> CudaBackend::select(const ProgramShape& program) {
    const Doing doing(comm_.activity(), "choosing cuDNN plans");
    const bool by_nccl = all_reduce_ && !options_.share_device;
    const int all = info_.multiprocessors, left = by_nccl ? beside_all_reduces(all) : all;
    const AlgorithmOptions options{.precision = options_.precision,
                                   .norm_by = options_.norm_by,
                                   .synchronised = options_.sync_bn && all_reduce_,
                                   .norm_multiprocessors = by_nccl || options_.invariant ? beside_all_reduces(all) : 0,
                                   .multiprocessors = options_.one_stream ? 0 : left};
    const Timing timing{[&](const PlanSpec& s) { return plans_.time(s); },
                        [&](const KernelSpec& s) { return plans_.time(s); }};
    const auto known = [&](const std::string& key) { return plans_.known_time(key); };
    auto algorithms = std::make_shared<GpuAlgorithms>();
    do {
        plans_.expect(expected_plans(program, options, known));
        *algorithms = cuda::select_algorithms(program, options, timing);
    } while (!plans_.build(algorithms->plans()));
    plans_.save();
    for (const std::string& text : algorithms->notes) note(text);
    for (const std::string& text : plans_.notes()) note(text);
    if (plans_.unmet() > 0)
        note(
            "cuDNN cannot build some plans of the checkpoint here: they are chosen again, so results may differ from "
            "earlier ones by rounding");
    return algorithms;
}

void CudaBackend::forward(const Op& op, const OpArguments& b, Tape& tape) {
    std::visit([&](const auto& o) { forward(o, b, tape); }, op);
}

void CudaBackend::backward(const Op& op, const OpArguments& b, Tape& tape) {
    std::visit([&](const auto& o) { backward(o, b, tape); }, op);
}

// One launch for all gradients of a bucket, on the main branch, which was joined after each op. It
// does not overlap with data gradients, even if the weight gradients did.
void CudaBackend::finish_gradients(Tape& tape) {
    if (low_gradients_.parts.empty()) return;
    append(tape, named_launch(LaunchPhase::conversion, "weight gradients to f32"),
           [workspace = gradient_workspace_, low = std::exchange(low_gradients_, {})](cudaStream_t s) mutable {
               for (size_t i = 0; i < low.parts.size(); ++i) low.copies[i].from.data = workspace->at(low.parts[i]);
               kernels::crop(low.copies, s);
           });
}

LaunchId CudaBackend::followed(LaunchId id, const std::string& what) {
    id.name += " " + what;
    return id;
}

LaunchId CudaBackend::fused_with(LaunchId id, const std::string& with, int op) {
    id.name = with + " and " + id.name;
    id.fused_op = op;
    return id;
}

void CudaBackend::append(Tape& tape, LaunchId id, std::function<void(cudaStream_t)> launch, Branch branch) {
    tape.push_back({std::move(id), Resource::compute,
                    [launch = std::move(launch), stream = stream_of(branch)] { launch(stream); }});
}

void CudaBackend::append(Tape& tape, LaunchId id, const Plan& plan, const std::vector<Operand>& operands,
                         Branch branch) {
    const auto holder = [this](const Operand& o) { return o.of ? o.of : workspace_.get(); };
    size_t used = 0;
    for (const Operand& o : operands)
        if (o.part && holder(o) == workspace_of(branch).get()) used = std::max(used, o.part->end());
    const Workspace::Part own = workspace_of(branch)->part(used, plan.workspace());
    const auto run = [=, this](cudaStream_t s) {
        std::vector<std::pair<Slot, void*>> places;
        for (const Operand& o : operands) places.emplace_back(o.slot, o.part ? holder(o)->at(*o.part) : o.data);
        plan.run(places, workspace_of(branch)->at(own), s);
    };
    append(tape, std::move(id), run, branch);
}

void CudaBackend::fork(Tape& tape, const LaunchId& id) {
    append(tape, followed(id, "fork"), [this](cudaStream_t main) { follow(side_.get(), main, forked_); });
}

void CudaBackend::join(Tape& tape, const LaunchId& id) {
    append(tape, followed(id, "join"), [this](cudaStream_t main) { follow(main, side_.get(), joined_); });
}

const Plan& CudaBackend::plan(const PlanSpec& spec) {
    comm_.activity().enter("choosing cuDNN plans");
    if (const Plan* found = plans_.find(spec)) return *found;
    fail(Exit::usage, "cuDNN " + Cudnn::version() + " has no engine for '" + spec.key() + "' on " + info_.name +
                          "; choose another --precision or batch");
}

void CudaBackend::note(const std::string& text) {
    if (!noted_.insert(text).second) return;
    if (comm_.root())
        std::fprintf(stderr, "convoy: %s\n", text.c_str());
    else
        unsaid_ += text + "\n";
}

void CudaBackend::zero(Tensor t, Tape& tape) {
    append(tape, named_launch(LaunchPhase::zero, "zero"),
           [t](cudaStream_t s) { check(cudaMemsetAsync(t.data, 0, t.bytes(), s), "clearing memory"); });
}

// Times launches by events on the compute stream, which waits for work on the other streams. If the
// device is faster than the host, the time is that of the host's call.
std::vector<double> CudaBackend::time_launches(const Tape& tape) {
    prepare();
    std::vector<Event> marks;
    marks.reserve(tape.size() + 1);
    while (marks.size() <= tape.size()) marks.emplace_back(true);
    const auto mark = [&](size_t i) { check(cudaEventRecord(marks[i].get(), compute_.get()), "timing a step"); };
    mark(0);
    for (size_t i = 0; i < tape.size(); ++i) {
        comm_.activity().enter(tape[i].id.name.c_str());
        tape[i].run();
        mark(i + 1);
    }
    synchronize();
    std::vector<double> seconds;
    for (size_t i = 0; i < tape.size(); ++i) {
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, marks[i].get(), marks[i + 1].get()), "timing a step");
        seconds.push_back(1e-3 * double(milliseconds));
    }
    return seconds;
}

std::function<void()> CudaBackend::finish(Tape tape) {
    plans_.save();
    const bool capture = options_.capture && (!all_reduce_ || all_reduce_->capturable());
    auto captured = std::make_shared<CapturedTape>(std::move(tape), compute_.get(), capture);
    return [this, captured] {
        prepare();
        captured->run(workspace_->generation() + side_workspace_->generation() + gradient_workspace_->generation());
    };
}

void CudaBackend::prepare() {
    workspace_->settle();
    side_workspace_->settle();
    gradient_workspace_->settle();
    copies_->refresh(compute_.get());
    for (const Mirror& m : mirrors_) {
        auto* flags = static_cast<volatile int*>(m.flags->get());
        flags[0] = m.requests->stop.load();
        flags[1] = m.requests->checkpoint.load();
        flags[2] = m.requests->snapshot.load();
    }
}

Facts CudaBackend::health() const {
    Facts facts = nvml_.health();
    facts.emplace_back("bus", info_.bus);
    if (!info_.others.empty()) facts.emplace_back("other processes", info_.others);
    return facts;
}

namespace {

/// Warns on rank 0 about GPUs that other processes use. Collective.
void warn_of_others(Comm& comm, const std::string& others) {
    const std::vector<std::string> found = comm.gather_all(others);
    for (size_t rank = 0; comm.root() && rank < found.size(); ++rank)
        if (!found[rank].empty())
            std::fprintf(stderr, "warning: the GPU of rank %zu is in use by %s: both will be slower\n", rank,
                         found[rank].c_str());
}

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendOptions& options, Comm& comm) {
    DeviceInfo info;
    comm.together([&] {
        const Found found = find_devices();
        if (const std::string reason = reason_without_device(found); !reason.empty())
            fail(Exit::usage, "--device cuda: rank " + std::to_string(comm.rank()) + " on " + comm.host() + ": " +
                                  reason + "; fix that, or use --device cpu");
        info = describe_device(device_of_rank(comm.local_rank(), comm.local_size(), int(found.capabilities.size()),
                                              options.devices, options.share_device));
        check_device(info, found, options.precision, comm.rank());
    });
    const std::string shared = shared_device(comm.gather_all(comm.host() + " " + info.uuid));
    comm.together([&] {
        if (!shared.empty() && !options.share_device) fail(Exit::usage, shared);
    });
    const Nvml nvml(info.bus);  // kept until the backend has its own, because only the first one costs time
    if (!options.share_device) {
        info.others = nvml.processes();  // no rank has work on its GPU yet
        warn_of_others(comm, info.others);
    }
    const std::string placement = bind_rank(comm, info.bus, options.bind);
    // One core is left for the thread that times plans, because its delays would count as time of a
    // plan.
    const int cores = comm.fair_threads();
    std::unique_ptr<CudaBackend> backend;
    comm.together([&] {
        check(cudaSetDevice(info.index), "choosing the device");
        backend = std::make_unique<CudaBackend>(options, info, comm, std::max(1, cores - 1), placement);
    });
    backend->connect();
    return backend;
}

}  // namespace convoy::cuda
