// What the options of a recipe mean: optimizer, rates, decay, augmentation.
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "cli/train_options.h"

namespace convoy {

OptimizerSpec optimizer_of(const TrainOptions& o) {
    OptimizerSpec spec;
    spec.kind = o.optimizer == "adam" ? OptimizerSpec::adam : OptimizerSpec::sgd;
    spec.momentum = float(o.momentum);
    spec.nesterov = o.nesterov;
    spec.beta1 = float(o.beta1);
    spec.beta2 = float(o.beta2);
    spec.epsilon = float(o.epsilon);
    spec.muon_momentum = float(o.muon_momentum);
    return spec;
}

namespace {

/// Adam's steps do not grow with momentum: there the unit has no effect.
bool per_kilostep(const TrainOptions& o) { return o.lr_unit == "kilostep" && o.optimizer != "adam"; }

/// What --lr-unit kilostep divides by: samples, times the growth of a step under Nesterov momentum and a constant gradient.
double kilostep(const TrainOptions& o) {
    if (o.momentum >= 1) fail(Exit::usage, "--lr-unit kilostep needs a --momentum below 1");
    return 1024 * (1 + 1 / (1 - o.momentum));
}

}  // namespace

double weight_decay_of(const TrainOptions& o, int64_t global_batch) {
    return per_kilostep(o) ? o.weight_decay * double(global_batch) / kilostep(o) : o.weight_decay;
}

Schedule schedule_of(const TrainOptions& o, int64_t global_batch) {
    Schedule s;
    s.kind = parse_schedule(o.lr_schedule);
    if (o.lr == "auto") {
        s.base = double(global_batch) / 1000;
    } else {
        char* end = nullptr;
        s.base = std::strtod(o.lr.c_str(), &end);
        if (end == o.lr.c_str() || *end || !std::isfinite(s.base) || s.base < 0)
            fail(Exit::usage, "--lr " + o.lr + ": must be one number from 0, or auto for global batch / 1000");
    }
    if (per_kilostep(o)) {
        if (o.lr == "auto") fail(Exit::usage, "--lr auto has no unit; give a number, or leave --lr-unit kilostep out");
        s.base /= kilostep(o);
    }
    if (o.decay_mode == "decoupled" && s.base <= 0) fail(Exit::usage, "--decay-mode decoupled divides by --lr, which is 0");
    s.warmup_epochs = o.warmup_epochs;
    s.gamma = o.lr_gamma;
    s.step_epochs = o.lr_step_epochs;
    s.milestones = numbers_of("lr-milestones", o.lr_milestones);
    if (s.kind == Schedule::multistep && s.milestones.empty()) fail(Exit::usage, "--lr-schedule multistep needs --lr-milestones, as in 60,120");
    std::istringstream in(o.lr_points);
    for (std::string item; std::getline(in, item, ',');) {
        const size_t colon = item.find(':');
        if (colon == std::string::npos || colon == 0 || colon + 1 == item.size())
            fail(Exit::usage, "--lr-points " + o.lr_points + ": write epoch:factor pairs, as in 0:0.2,2:1,10:0");
        const bool share = item[colon - 1] == '%';
        if (share != s.points_of_run && !s.points.empty()) fail(Exit::usage, "--lr-points " + o.lr_points + ": write epochs or percent, not both");
        s.points_of_run = share;
        const std::vector<double> at = numbers_of("lr-points", item.substr(0, share ? colon - 1 : colon));
        if (at.size() != 1) fail(Exit::usage, "--lr-points " + o.lr_points + ": a % has no number before it");
        s.points.emplace_back(share ? at[0] / 100 : at[0], numbers_of("lr-points", item.substr(colon + 1)).at(0));
        if (s.points.size() > 1 && s.points.back().first <= s.points[s.points.size() - 2].first)
            fail(Exit::usage, "--lr-points " + o.lr_points + ": epochs must rise");
    }
    if (s.kind == Schedule::linear && s.points.empty()) fail(Exit::usage, "--lr-schedule linear needs --lr-points, as in 0:0.2,2:1,10:0");
    return s;
}

Augment augment_of(const TrainOptions& o) { return {int(o.crop_pad), o.crop_mode == "reflect", o.flip, o.flip_mode == "alternate"}; }

}  // namespace convoy
