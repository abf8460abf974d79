#include "train/setup.h"

#include <cmath>

namespace convoy {

ParamRules param_rules(const TrainSetup& setup, int64_t steps_per_epoch) {
    return [=](const Param& p) {
        ParamRule rule;
        if (p.group == ParamGroup::norm_shift) rule.learning_rate = float(setup.norm_shift_rate);
        if (p.group == ParamGroup::filter) rule.learning_rate = float(setup.filter_rate);
        if (p.group == ParamGroup::linear) rule.learning_rate = float(setup.linear_rate);
        if (const auto factor = setup.rate_factors.find(p.name); factor != setup.rate_factors.end())
            rule.learning_rate *= float(factor->second);
        rule.muon = setup.muon && p.group == ParamGroup::filter;
        if (p.group == ParamGroup::whitening_bias && setup.whitening_bias_epochs > 0)
            rule.steps = int64_t(std::ceil(setup.whitening_bias_epochs * double(steps_per_epoch) - 1e-9));
        const double decay = rule.muon ? 0 : p.is_weight || !setup.decay_weights_only ? setup.weight_decay : 0;
        rule.weight_decay =
            float(setup.decoupled_decay ? decay / (setup.schedule.base * double(rule.learning_rate)) : decay);
        return rule;
    };
}

}  // namespace convoy
