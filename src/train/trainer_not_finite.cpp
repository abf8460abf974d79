// Handles steps whose loss or gradients are not finite. It stops and reports the first such value,
// continues without the update, or rolls back to a checkpoint with a lower rate. The backend has
// already skipped the update, on all ranks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "train/trainer.h"

namespace convoy {
namespace {

constexpr int64_t most_skipped_in_a_row = 16;
constexpr double rollback_factor = 0.5, least_rate_factor = 1.0 / 256;

/// True if all numbers are finite. Infinities and NaN have all bits of `exponent` set.
template <class Bits> bool all_finite(const std::vector<char>& bytes, Bits exponent) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
        Bits v;
        std::memcpy(&v, bytes.data() + at, sizeof v);
        if ((v & exponent) == exponent) return false;
    }
    return true;
}
bool all_finite(const std::vector<char>& bytes, DType type) {
    if (type == DType::f32) return all_finite(bytes, uint32_t(0x7f800000));
    return all_finite(bytes, uint16_t(type == DType::f16 ? 0x7c00 : 0x7f80));
}

}  // namespace

bool Trainer::handle_skipped(const std::vector<StepRecord>& records, TrainListener& listener) {
    const auto failed = std::find_if(records.begin(), records.end(), [](const StepRecord& r) { return r.skipped; });
    if (setup_.on_nan == OnNan::stop) stop_not_finite(*failed);
    if (setup_.on_nan == OnNan::rollback) {
        if (!roll_back(failed->step, listener)) stop_not_finite(*failed);
        return true;
    }
    for (const StepRecord& r : records) {
        skipped_in_a_row_ = r.skipped ? skipped_in_a_row_ + 1 : 0;
        if (skipped_in_a_row_ == most_skipped_in_a_row) stop_not_finite(r);
    }
    return false;
}

bool Trainer::roll_back(int64_t failed, TrainListener& listener) {
    const double factor = rate_factor_ * rollback_factor;
    std::optional<Checkpoint> back;
    if (factor >= least_rate_factor) back = listener.on_rollback(failed);
    if (comm_.max(int64_t(back.has_value())) == 0) return false;
    restore(back ? std::move(*back) : Checkpoint());
    rate_factor_ = factor;
    upload_rates();
    const BatchStats unlatched;
    backend_.upload(state_.stats(), &unlatched, sizeof unlatched);
    saved_step_ = -1;  // the checkpoint has the old rate, so another is needed
    return true;
}

void Trainer::stop_not_finite(const StepRecord& r) {
    std::ostringstream message;
    message << "the loss ";
    if (std::isfinite(r.loss))
        message << "is finite at step " << r.step << ", but a gradient is not";
    else
        message << "is " << (std::isnan(r.loss) ? "nan" : "infinite") << " at step " << r.step;
    message << " (learning rate " << r.learning_rate << "); " << first_not_finite(r.step)
            << "; lower --lr, add --warmup-epochs, or choose --on-nan skip or rollback";
    // Loss and gradients were all-reduced, so all ranks come here.
    fail_everywhere(Exit::not_finite, message.str());
}

std::string Trainer::first_not_finite(int64_t step) {
    std::vector<char> host;
    const auto finite = [&](const Tensor& t) {
        host.resize(t.bytes());
        backend_.download(host.data(), t.data, t.bytes());
        return all_finite(host, t.dtype);
    };
    for (const NamedTensor& t : state_.model())
        if (!finite(t.tensor)) return "not finite even before it: " + t.name;

    // The update was skipped, so the step can be repeated op by op.
    step_ = step - 1;
    upload_counters(step_ / epoch_plan_.steps());
    supply_batch();
    std::string found;
    size_t first = SIZE_MAX;
    for (const Program& part : program_of(step_).parts) {
        size_t at = 0, probe = 0;
        for (const Step& s : part.tape) {
            s.run();
            ++at;
            for (; probe < part.probes.size() && part.probes[probe].after == at; ++probe) {
                backend_.synchronize();
                if (first <= at || finite(part.probes[probe].output)) continue;
                first = at;
                found = part.probes[probe].name;
            }
        }
    }
    const std::vector<std::string> all = comm_.gather_all(found);
    const std::vector<double> places = comm_.gather_all(std::vector<double>{double(first)});
    const size_t rank = size_t(std::min_element(places.begin(), places.end()) - places.begin());
    if (all[rank].empty()) return "no operation of a rank shows it, so it comes from the sum over ranks";
    return "not finite first: the output of " + all[rank] +
           (comm_.size() > 1 ? " on rank " + std::to_string(rank) : "");
}

}  // namespace convoy
