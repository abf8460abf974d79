#include "cli/auto_rate.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace convoy {
namespace {

constexpr int64_t most_batch = 8192;       // linear scaling was shown up to this batch
constexpr int64_t steps_of_an_epoch = 16;  // with fewer, batch norm's averages lag behind
constexpr double usual_momentum = 0.9;     // the momentum for which the rate of sgd is given

/// Returns the batch that a rate is scaled with.
int64_t counted_batch(int64_t global_batch, int64_t images) {
    return std::min({global_batch, std::max<int64_t>(images / steps_of_an_epoch, 1), most_batch});
}

struct Rule {
    double rate;
    int64_t batch;  ///< the batch for which `rate` is given
    bool root;      ///< true: scales with the square root of the batch; false: in proportion
};

Rule rule_of(const TrainOptions& o) {
    switch (o.optimizer) {
        case OptimizerChoice::sgd: return {o.model.name.starts_with("airbench94") ? 0.25 : 0.1, 256, false};
        case OptimizerChoice::adam: return {0.001, 32, true};
        case OptimizerChoice::muon: return {0.02, 32, true};
    }
    return {};
}

/// The number of epochs and steps of a run.
struct Length {
    double epochs, steps;
};

Length length_of(const TrainOptions& o, int64_t global_batch, int64_t images) {
    const int64_t whole = o.setup.drop_last ? images / global_batch : (images + global_batch - 1) / global_batch;
    const auto of_epoch = double(std::max<int64_t>(whole, 1));
    const double most = o.setup.max_steps > 0 ? double(o.setup.max_steps) / of_epoch : o.setup.epochs,
                 epochs = std::min(o.setup.epochs, most);
    return {epochs, epochs * of_epoch};
}

/// Returns the least number of steps of a run that gets the full rate; a shorter run gets a lower
/// one. 0: the rate does not depend on the steps.
double enough_steps(const TrainOptions& o) {
    if (o.optimizer != OptimizerChoice::sgd) return 0;
    if (o.model.name == "resnet18" || o.model.name == "resnet34" || o.model.name.starts_with("pyramidnet")) return 1000;
    return o.model.name.starts_with("resnet") ? 2000 : 0;
}

std::string schedule_name(Schedule::Kind kind) { return name_of(schedule_choices(), std::optional(kind)); }

}  // namespace

AutoRate auto_rate(const TrainOptions& o, int64_t global_batch, int64_t images) {
    const int64_t counted = counted_batch(global_batch, images);
    const Rule rule = rule_of(o);
    const double share = double(counted) / double(rule.batch);
    double rate = rule.rate * (rule.root ? std::sqrt(share) : share);
    std::string why = formatted(" (--lr auto: %g at a batch of %lld, %s", rule.rate, (long long)rule.batch,
                                rule.root ? "with its square root" : "in proportion");
    if (counted < global_batch) why += formatted(", counted up to %lld", (long long)counted);
    if (o.optimizer == OptimizerChoice::sgd && o.momentum != usual_momentum) {
        rate *= std::max(1 - o.momentum, 0.01) / (1 - usual_momentum);
        why += formatted(", for --momentum %g", o.momentum);
    }
    if (const double steps = length_of(o, global_batch, images).steps, enough = enough_steps(o); steps < enough) {
        const double factor = std::sqrt(steps / enough);
        rate *= factor;
        why += formatted(", times %.3g for only %.0f steps", factor, steps);
    }
    return {rate, why + ")"};
}

double auto_warmup_epochs(const TrainOptions& o, int64_t global_batch, int64_t images) {
    return std::min(5.0, 0.3 * length_of(o, global_batch, images).epochs);
}

void take_recorded_rates(const std::string& configuration, ParsedOptions& parsed) {
    TrainOptions& o = parsed.options;
    const std::string rate = config_value(configuration, "lr"), kind = config_value(configuration, "lr-schedule"),
                      warmup = config_value(configuration, "warmup-epochs");
    if (o.lr || rate.empty() || config_value(configuration, "lr-unit") == "kilostep") return;
    const auto left_open = [&](const std::string& option) {
        const auto given = parsed.given.find(option);
        return given == parsed.given.end() || given->second.value == "auto";
    };
    if (left_open("lr-schedule")) {
        if (kind != schedule_name(Schedule::constant) && kind != schedule_name(Schedule::cosine)) return;
        o.lr_schedule = choose("lr-schedule", kind, schedule_choices());
        set_config_value(parsed.resolved, "lr-schedule", kind);
    }
    const std::string number = rate == "auto" ? "1@1000" : rate;  // old runs recorded auto, which meant this
    o.lr = parse_rate("lr", number);
    set_config_value(parsed.resolved, "lr", number);
    if (!left_open("warmup-epochs") || warmup.empty()) return;
    o.warmup_epochs = parse_warmup("warmup-epochs", warmup);
    set_config_value(parsed.resolved, "warmup-epochs", warmup);
}

void record_rates(const Schedule& s, ConfigPairs& resolved) {
    const auto record = [&](const std::string& option, const std::string& value) {
        for (auto& [key, old] : resolved)
            if (key == option && old == "auto") old = value;
    };
    record("lr", shortest_text(s.base));
    record("lr-schedule", schedule_name(s.kind));
    record("warmup-epochs", shortest_text(s.warmup_epochs));
}

}  // namespace convoy
