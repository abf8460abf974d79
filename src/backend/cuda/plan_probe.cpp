// Builds, checks, replays and times plans on a GPU, for `convoy info --plans MODEL --run`. An
// engine that faults ends only this process; cli/plan_run.cpp then runs the next plans in another.

#include <cuda_fp16.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/device.h"
#include "backend/cuda/plan_builder.h"
#include "backend/cuda/plan_reference.h"
#include "backend/cuda/random_memory.h"
#include "backend/cuda/timing.h"
#include "backend/cuda/trial_log.h"
#include "backend/cuda/tuned_plans.h"
#include "backend/cuda_entry.h"
#include "base/bf16.h"
#include "base/clock.h"
#include "base/text.h"

namespace convoy::cuda {
namespace {

using Bytes = std::vector<unsigned char>;

float element(const Bytes& from, DType type, size_t i) {
    if (type == DType::f16) return __half2float(reinterpret_cast<const __half*>(from.data())[i]);
    if (type == DType::bf16) return to_float(reinterpret_cast<const bf16*>(from.data())[i]);
    return reinterpret_cast<const float*>(from.data())[i];
}
void set_element(Bytes& to, DType type, size_t i, float v) {
    if (type == DType::f16) reinterpret_cast<__half*>(to.data())[i] = __float2half_rn(v);
    if (type == DType::bf16) assign(reinterpret_cast<bf16*>(to.data())[i], v);
    if (type == DType::f32) reinterpret_cast<float*>(to.data())[i] = v;
}

/// The largest error of a right plan. Stored values, and values between fused operations, are
/// rounded once. In f32 the order of a long sum decides.
double most_error(DType type) {
    constexpr double f16 = 1.0 / 2048, bf16 = 1.0 / 256, f32 = 2e-4;  // error of one rounding
    return 3 * (type == DType::f16 ? f16 : type == DType::bf16 ? bf16 : f32);
}

class Probe {
public:
    Probe(const PlanSpec& spec, const Cudnn& cudnn, TrialLog& trials,
          const std::function<void(const std::string&)>& say)
        : s_(spec), cudnn_(cudnn), trials_(trials), say_(say), reference_(spec) {}

    /// Returns true if the plan is right, or is not needed and has no engine.
    bool run(size_t cache) {
        for (const Slot slot : operands_of(s_)) fill(slot);
        if (!find_engine()) {
            say_(line_start() + "no engine runs: " + reason_);
            return !Search(s_, true).needed;
        }
        const std::vector<Bytes> eager = results();
        const PlanReference::Error error = reference_.error([&](Slot slot, size_t i) {
            const auto outputs = reference_.outputs();
            const size_t at = size_t(std::find(outputs.begin(), outputs.end(), slot) - outputs.begin());
            return element(eager[at], operand_type(s_, slot), i);
        });
        const ExecutableGraph captured = capture(stream_.get(), [&] { launch(operands_); });
        bool same = true;
        for (int replay = 0; replay < 2; ++replay) {
            for (const Slot slot : reference_.outputs())
                check(cudaMemsetAsync(at(slot), 0xff, operand_bytes(s_, slot), stream_.get()), "clearing results");
            check(cudaGraphLaunch(captured.get(), stream_.get()), "replaying a plan");
            same = results() == eager && same;
        }
        const bool right = error.relative <= most_error(s_.type);
        say_(line_start() + graph_->name(candidate_) + rates(time(cache)) +
             formatted(", error %.0e of %s%s, %s, built %s", error.relative, name_of(error.slot),
                       right ? "" : ": WRONG", same ? "replays alike" : "REPLAYS DIFFER",
                       builds_ ? "with a handle only" : "without a handle"));
        return right && same;
    }

private:
    using Operands = std::vector<std::pair<Slot, void*>>;

    std::string line_start() const { return formatted("%-76s ", s_.key().c_str()); }
    void* at(Slot slot) const {
        return std::find_if(operands_.begin(), operands_.end(), [&](const auto& o) { return o.first == slot; })->second;
    }
    void launch(const Operands& operands) const { graph_->run(candidate_, operands, workspace_.get(), stream_.get()); }

    void fill(Slot slot) {
        const size_t size = size_of(operand_type(s_, slot)), bytes = operand_bytes(s_, slot);
        memory_.emplace_back(bytes);
        operands_.emplace_back(slot, memory_.back().get());
        Bytes block(std::min(bytes, PlanReference::period * size));
        for (size_t i = 0; i < block.size() / size; ++i)
            set_element(block, operand_type(s_, slot), i, reference_.input(slot, i));
        auto* to = static_cast<char*>(memory_.back().get());
        check(cudaMemcpyAsync(to, block.data(), block.size(), cudaMemcpyHostToDevice, stream_.get()), "filling memory");
        for (size_t filled = block.size(); filled < bytes; filled += std::min(filled, bytes - filled))
            check(cudaMemcpyAsync(to + filled, to, std::min(filled, bytes - filled), cudaMemcpyDeviceToDevice,
                                  stream_.get()),
                  "filling memory");
        check(cudaStreamSynchronize(stream_.get()), "filling memory");
    }

    /// Finds the first engine that runs if built without a handle or, if there is none, with it.
    bool find_engine() {
        for (const Cudnn* builds : {static_cast<const Cudnn*>(nullptr), &cudnn_}) {
            builds_ = builds;
            graph_ = std::make_unique<CudnnGraph>(cudnn_, s_, builds);
            if (graph_->candidates() == 0) reason_ = graph_->reason().empty() ? "cuDNN has none" : graph_->reason();
            Search search(s_, true);
            for (candidate_ = 0; candidate_ < graph_->candidates() && !search.enough(); ++candidate_) {
                const auto start = Clock::now();
                if (runs()) return true;
                search.add(false);
                search.seconds += seconds_since(start);
            }
        }
        return false;
    }

    bool runs() {
        const std::string engine = graph_->name(candidate_), key = s_.key();
        if (trials_.ended_one(key, engine)) return reason_ = engine + " ended an earlier process", false;
        say_("trying " + key + " = " + engine);
        ::alarm(probe_seconds);
        if (!graph_->build(candidate_, reason_)) return false;
        trials_.begin(key, engine);
        bool ran = true;
        try {
            workspace_ = DeviceMemory(std::max<size_t>(graph_->workspace(candidate_), 1));
            launch(operands_);
        } catch (const std::runtime_error& e) {
            reason_ = e.what();
            ran = false;
            cudaGetLastError();
        }
        check(cudaStreamSynchronize(stream_.get()), ("running cuDNN's engine " + engine).c_str());
        trials_.end();
        return ran;
    }

    std::vector<Bytes> results() const {
        std::vector<Bytes> all;
        for (const Slot slot : reference_.outputs()) {
            Bytes& to = all.emplace_back(operand_bytes(s_, slot));
            check(cudaMemcpyAsync(to.data(), at(slot), to.size(), cudaMemcpyDeviceToHost, stream_.get()), "reading");
        }
        check(cudaStreamSynchronize(stream_.get()), "reading results");
        return all;
    }

    /// Returns microseconds, with operands that rotate as when a training chooses plans.
    float time(size_t cache) {
        std::vector<std::function<void()>> works = {[this] { launch(operands_); }};
        while (works.size() < turns(operand_sum(), cache)) {
            Operands more;
            for (const Slot slot : operands_of(s_)) {
                memory_.push_back(random_memory(operand_bytes(s_, slot), stream_.get()));
                more.emplace_back(slot, memory_.back().get());
            }
            works.emplace_back([this, more] { launch(more); });
        }
        return microseconds_of(works, stream_.get());
    }
    size_t operand_sum() const {
        size_t bytes = 0;
        for (const Slot slot : operands_of(s_)) bytes += operand_bytes(s_, slot);
        return bytes;
    }
    std::string rates(float microseconds) const {
        const double per_second = 1e6 / double(microseconds);
        return formatted(": %.1f us, %.1f TFLOP/s, %.0f GB/s, %.1f MiB workspace", double(microseconds),
                         1e-12 * s_.flops() * per_second, 1e-9 * double(operand_sum()) * per_second,
                         double(graph_->workspace(candidate_)) / (1 << 20));
    }

    const PlanSpec& s_;
    const Cudnn& cudnn_;
    TrialLog& trials_;
    const std::function<void(const std::string&)>& say_;
    const PlanReference reference_;
    const Stream stream_;
    std::vector<DeviceMemory> memory_;
    Operands operands_;
    DeviceMemory workspace_{1};
    std::unique_ptr<CudnnGraph> graph_;
    const Cudnn* builds_ = nullptr;  // null: built without a handle
    int candidate_ = 0;
    std::string reason_;  // why the last engine did not run
};

}  // namespace

int first_capability() {
    if (const std::string reason = unavailable(); !reason.empty()) fail(Exit::usage, "--run: " + reason);
    return describe_device(0).capability;
}

bool probe_plans(const std::vector<PlanSpec>& specs, const std::function<void(const std::string&)>& say) {
    const DeviceInfo device = describe_device(0);
    check(cudaSetDevice(0), "choosing the device");
    const Stream stream;
    const Cudnn cudnn(stream.get());
    TrialLog trials(cache_path(device.name, Cudnn::version()));
    bool right = true;
    for (const PlanSpec& spec : specs)
        for (const std::string& note : trials.notes())
            if (note.find("'" + spec.key() + "'") != std::string::npos) say(note);
    for (const PlanSpec& spec : specs) try {
            right = Probe(spec, cudnn, trials, say).run(device.l2) && right;
        } catch (const std::bad_alloc&) {
            say(formatted("%-76s not enough memory", spec.key().c_str()));
            right = false;
        }
    ::alarm(0);
    return right;
}

}  // namespace convoy::cuda
