// Computes each parameter's rule from a recipe. Uploads the schedules, and whitening filters.
#include <algorithm>
#include <cmath>

#include "model/whitening.h"
#include "train/trainer.h"

namespace convoy {

ParamRules param_rules(const TrainSetup& setup, int64_t steps_per_epoch) {
    return [=](const Param& p) {
        ParamRule rule;
        if (p.group == ParamGroup::norm_shift) rule.learning_rate = float(setup.norm_shift_rate);
        if (p.group == ParamGroup::filter) rule.learning_rate = float(setup.filter_rate);
        if (p.group == ParamGroup::linear) rule.learning_rate = float(setup.linear_rate);
        rule.muon = setup.muon && p.group == ParamGroup::filter;
        if (p.group == ParamGroup::whitening_bias && setup.whitening_bias_epochs > 0)
            rule.steps = int64_t(std::ceil(setup.whitening_bias_epochs * double(steps_per_epoch) - 1e-9));
        const double decay = rule.muon ? 0 : p.is_weight || !setup.decay_weights_only ? setup.weight_decay : 0;
        rule.weight_decay =
            float(setup.decoupled_decay ? decay / (setup.schedule.base * double(rule.learning_rate)) : decay);
        return rule;
    };
}

void Trainer::upload_rates() {
    std::vector<float> rates(static_cast<size_t>(total_steps_));
    for (int64_t s = 0; s < total_steps_; ++s)
        rates[size_t(s)] = float(rate_factor_ * learning_rate(setup_.schedule, s, epoch_plan_.steps(), total_steps_));
    backend_.upload(learning_rates_.get(), rates.data(), rates.size() * sizeof(float));
    if (setup_.look_ahead <= 0) return;
    const std::vector<float> decays = look_ahead_decays(setup_.look_ahead, setup_.look_ahead_decay, total_steps_);
    backend_.upload(decays_.get(), decays.data(), decays.size() * sizeof(float));
}

void Trainer::set_whitening_filters(const Param& p, const Tensor& to) {
    constexpr int64_t most_images = 5000;
    const SplitInfo& data = train_.info();
    const int64_t images = std::min(data.images, most_images);
    const std::vector<uint8_t> pixels = train_.first_pixels(comm_, images);
    if (!comm_.root()) return;
    const std::vector<float> filters =
        whitening_filters({pixels.data(), int(images), data.height, data.width, data.channels,
                           setup_.preprocessing.mean, setup_.preprocessing.stddev},
                          p.shape.h);
    require(filters.size() == p.shape.count(),
            "a whitening convolution has twice as many filters as a patch has numbers");
    backend_.upload(to.data, filters.data(), filters.size() * sizeof(float));
}

}  // namespace convoy
