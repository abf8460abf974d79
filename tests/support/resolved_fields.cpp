// Implements the flattening of resolved options.
#include "tests/support/resolved_fields.h"

#include <charconv>
#include <sstream>
#include <type_traits>

namespace convoy::test {
namespace {

template <class T> std::string shortest(T v) {
    char text[64];
    return {text, std::to_chars(text, text + sizeof text, v).ptr};
}

std::string text(const std::string& v) { return v; }
template <class T>
    requires std::is_arithmetic_v<T>
std::string text(T v) {
    if constexpr (std::is_same_v<T, bool>)
        return v ? "true" : "false";
    else
        return shortest(v);
}
template <class T>
    requires std::is_enum_v<T>
std::string text(T v) {
    return shortest(int(v));
}
template <class A, class B> std::string text(const std::pair<A, B>& v) { return text(v.first) + ":" + text(v.second); }
template <class T> std::string text(const std::vector<T>& list) {
    std::string all;
    for (const T& v : list) all += (all.empty() ? "" : ",") + text(v);
    return all;
}
std::string text(const std::optional<Clock::time_point>& v) {
    return v ? shortest(std::chrono::duration<double>(v->time_since_epoch()).count()) : "none";
}

/// Adds `values` under `names`, which spaces separate; one name per value.
template <class... Values> void add(Fields& to, const std::string& names, const Values&... values) {
    std::istringstream in(names);
    std::string name;
    const auto one = [&](const std::string& value) {
        require(bool(in >> name), "every field has a name");
        to[name] = value;
    };
    (one(text(values)), ...);
    require(!(in >> name), "every name has a field");
}

void add_optimizer(Fields& f, const OptimizerSpec& o) {
    const auto& [kind, momentum, nesterov, beta1, beta2, epsilon, muon_momentum] = o;
    add(f,
        "optimizer.kind optimizer.momentum optimizer.nesterov optimizer.beta1 optimizer.beta2 optimizer.epsilon "
        "optimizer.muon_momentum",
        kind, momentum, nesterov, beta1, beta2, epsilon, muon_momentum);
}

void add_schedule(Fields& f, const Schedule& s) {
    const auto& [kind, base, warmup_epochs, gamma, step_epochs, milestones, points, points_of_run] = s;
    add(f,
        "schedule.kind schedule.base schedule.warmup_epochs schedule.gamma schedule.step_epochs schedule.milestones "
        "schedule.points schedule.points_of_run",
        kind, base, warmup_epochs, gamma, step_epochs, milestones, points, points_of_run);
}

void add_augment(Fields& f, const Augment& a) {
    const auto& [pad, reflect, flip, alternate, fixed, dy, dx, mirror, crop, scale_low, scale_high, ratio_low,
                 ratio_high, short_side, mixup, cutmix, brightness, contrast, saturation, hue] = a;
    add(f,
        "augment.pad augment.reflect augment.flip augment.alternate augment.fixed augment.dy augment.dx augment.mirror "
        "augment.crop augment.scale_low augment.scale_high augment.ratio_low augment.ratio_high augment.short_side "
        "augment.mixup augment.cutmix augment.brightness augment.contrast augment.saturation augment.hue",
        pad, reflect, flip, alternate, fixed, dy, dx, mirror, crop, scale_low, scale_high, ratio_low, ratio_high,
        short_side, mixup, cutmix, brightness, contrast, saturation, hue);
}

}  // namespace

std::string text_of(bool v) { return text(v); }
std::string text_of(int64_t v) { return text(v); }
std::string text_of(float v) { return text(v); }
std::string text_of(double v) { return text(v); }

Fields fields_of(const TrainSetup& setup) {
    const auto& [optimizer, schedule, weight_decay, decay_weights_only, decoupled_decay, norm_shift_rate, filter_rate,
                 linear_rate, muon, whitening_bias_epochs, look_ahead, look_ahead_decay, tta, augment, preprocessing,
                 epochs, global_batch, max_steps, eval_every, log_interval, metrics_every, drop_last, sync_bn,
                 logical_ranks, bucket_bytes, seed, on_nan, checkpoint_steps, checkpoint_epochs, checkpoint_seconds,
                 checkpoint_at_end, deadline] = setup;
    const auto& [mean, stddev, short_side] = preprocessing;
    Fields f;
    add_optimizer(f, optimizer);
    add_schedule(f, schedule);
    add_augment(f, augment);
    add(f,
        "weight_decay decay_weights_only decoupled_decay norm_shift_rate filter_rate linear_rate muon "
        "whitening_bias_epochs "
        "look_ahead look_ahead_decay tta mean stddev short_side",
        weight_decay, decay_weights_only, decoupled_decay, norm_shift_rate, filter_rate, linear_rate, muon,
        whitening_bias_epochs, look_ahead, look_ahead_decay, tta, mean, stddev, short_side);
    add(f,
        "epochs global_batch max_steps eval_every log_interval metrics_every drop_last sync_bn "
        "logical_ranks bucket_bytes seed "
        "on_nan "
        "checkpoint_steps "
        "checkpoint_epochs checkpoint_seconds checkpoint_at_end deadline",
        epochs, global_batch, max_steps, eval_every, log_interval, metrics_every, drop_last, sync_bn, logical_ranks,
        bucket_bytes, seed, on_nan, checkpoint_steps, checkpoint_epochs, checkpoint_seconds, checkpoint_at_end,
        deadline);
    return f;
}

Fields fields_of(const BackendOptions& options) {
    const auto& [threads, sync_bn, precision, plan_only, invariant, bind, tune_seconds, conv_by, devices, share_device,
                 capture, norm_by, bf16_gradients, one_stream] = options;
    Fields f;
    add(f,
        "backend.threads backend.sync_bn backend.precision backend.plan_only backend.invariant backend.bind "
        "backend.tune_seconds backend.conv_by backend.devices backend.share_device backend.capture backend.norm_by "
        "backend.bf16_gradients backend.one_stream",
        threads, sync_bn, precision, plan_only, invariant, bind, tune_seconds, conv_by, devices, share_device, capture,
        norm_by, bf16_gradients, one_stream);
    return f;
}

Fields fields_of(const ModelOptions& options) {
    const auto& [name, h, w, c, classes, stem, label_smoothing, dropout, sum_loss] = options;
    Fields f;
    add(f,
        "model.name model.h model.w model.c model.classes model.stem model.label_smoothing model.dropout "
        "model.sum_loss",
        name, h, w, c, classes, stem, label_smoothing, dropout, sum_loss);
    return f;
}

}  // namespace convoy::test
