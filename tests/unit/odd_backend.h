// Stand-ins for a device and for a run's files, for tests of the training loop.
#pragma once
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "tests/support/test_comm.h"
#include "train/trainer.h"

namespace convoy::test {

/// Behaves in ways a CPU does not: steps continue after their call returned, as on a GPU, and
/// gradients are not finite at a chosen step.
class OddBackend final : public cpu::CpuBackend {
public:
    OddBackend() : cpu::CpuBackend({2, false}, test_comm()) {}
    void set_asynchronous(bool asynchronous) { facts_.synchronous = !asynchronous; }
    void update(const Update& u, Tape& tape) override {
        tape.push_back({{.name = "poison"}, Resource::compute, [this, u] {
                            const int64_t step = u.counters->step + 1;
                            const auto first_time = [&] { return std::exchange(last_poisoned_, step) != step; };
                            if ((step == poisoned_step && (poison_again || first_time())) || (poisons && poisons(step)))
                                u.gradients[stats_elements] = NAN;
                        }});
        cpu::CpuBackend::update(u, tape);
    }

    void forward(const Op& op, const OpArguments& b, Tape& tape) override {
        if (std::holds_alternative<SoftmaxXent>(op))
            tape.push_back({{.name = "within"}, Resource::compute, [this] {
                                if (within) within();
                            }});
        cpu::CpuBackend::forward(op, b, tape);
    }

    void request(const Requests* requests, BatchStats* stats, BatchStats* own, Tape& tape) override {
        cpu::CpuBackend::request(requests, stats, own, tape);
        tape.push_back({{.name = "hold"}, Resource::compute, [this, stats] {
                            ++launched;
                            if (snapshotting) stats->snapshot = 1;
                            if (launched == stop_at) stats->stop = 1;
                        }});
    }
    void synchronize() override { waits.push_back({launched, launched}); }
    std::function<void()> mark() override {
        return [this, marked = launched] { waits.push_back({marked, launched}); };
    }

    bool snapshotting = false;     ///< simulates long steps
    std::function<void()> within;  ///< called in the middle of every step and evaluation batch
    bool poison_again = false;
    int64_t launched = 0;  ///< number of training steps so far
    int64_t stop_at = 0;   ///< the step in which some rank asks to stop
    struct Wait {
        int64_t until, launched;  ///< number of steps that are waited for, and number of all launched steps
    };
    std::vector<Wait> waits;  ///< the host's waits for the device
    int64_t poisoned_step = 0;
    std::function<bool(int64_t)> poisons;  ///< returns true for further steps to poison, each time

private:
    int64_t last_poisoned_ = 0;
};

class Recorder final : public TrainListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>& r) override {
        records.insert(records.end(), r.begin(), r.end());
    }
    void on_epoch(const EpochSummary& e) override { images.push_back(e.all.images); }
    void on_eval(int64_t, int64_t step, const EvalResult&, bool) override { evaluations.push_back(step); }
    void on_checkpoint(Checkpoint&& c) override { checkpoints.push_back(std::move(c)); }
    std::optional<Checkpoint> on_rollback(int64_t) override {
        if (checkpoints.empty()) return std::nullopt;
        return checkpoints.back();
    }
    std::vector<double> losses() const {
        std::vector<double> all;
        for (const StepRecord& r : records) all.push_back(r.loss);
        return all;
    }
    std::vector<int64_t> checkpoint_steps() const {
        std::vector<int64_t> all;
        for (const Checkpoint& c : checkpoints) all.push_back(c.step);
        return all;
    }

    std::vector<StepRecord> records;
    std::vector<int64_t> images, evaluations;
    std::vector<Checkpoint> checkpoints;
};

}  // namespace convoy::test
