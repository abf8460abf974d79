#include "cli/train_setup.h"

#include "base/error.h"

namespace convoy {

BackendOptions backend_options_of(const TrainOptions& o) {
    BackendOptions b;
    b.threads = int(o.threads);
    b.sync_bn = o.sync_bn;
    b.precision = o.precision;
    b.bind = o.bind;
    b.devices = o.devices;
    b.share_device = o.share_device;
    b.capture = !o.no_graph;
    b.bf16_gradients = o.bf16_gradients;
    b.norm_by = o.norm_by;
    b.tune_seconds = o.tune_seconds;
    return b;
}

OptimizerSpec optimizer_of(const TrainOptions& o) {
    OptimizerSpec spec;
    spec.kind = o.optimizer == OptimizerChoice::adam ? OptimizerSpec::adam : OptimizerSpec::sgd;
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
bool per_kilostep(const TrainOptions& o) { return o.lr_per_kilostep && o.optimizer != OptimizerChoice::adam; }

/// What --lr-unit kilostep divides by: samples, times the growth of a step under Nesterov momentum
/// and a constant gradient.
double kilostep(const TrainOptions& o) { return 1024 * (1 + 1 / (1 - o.momentum)); }

/// What a step decays by, at a rate of 1 or, decoupled, at the base rate.
double weight_decay_of(const TrainOptions& o, int64_t global_batch) {
    return per_kilostep(o) ? o.weight_decay * double(global_batch) / kilostep(o) : o.weight_decay;
}

}  // namespace

Schedule schedule_of(const TrainOptions& o, int64_t global_batch) {
    const double rate = o.lr.value_or(double(global_batch) / 1000);
    return {.kind = o.lr_schedule,
            .base = per_kilostep(o) ? rate / kilostep(o) : rate,
            .warmup_epochs = o.warmup_epochs,
            .gamma = o.lr_gamma,
            .step_epochs = o.lr_step_epochs,
            .milestones = o.lr_milestones,
            .points = o.lr_points.points,
            .points_of_run = o.lr_points.of_run};
}

Augment augment_of(const TrainOptions& o) {
    Augment a;
    a.pad = int(o.crop_pad);
    a.reflect = o.crop_reflect;
    a.flip = o.flip;
    a.alternate = o.flip_alternate;
    return a;
}

void refuse_ragged(const SplitInfo& data, const std::string& dir) {
    if (data.ragged)
        fail(Exit::usage, dir + ": its images differ in size, and are not trained on yet; convert them to one size, " +
                              "with 'convoy convert imagefolder … --size HxW'");
}

ModelOptions model_of(const TrainOptions& o, const SplitInfo& data) {
    refuse_ragged(data, o.data);
    return {.name = o.model,
            .h = data.height,
            .w = data.width,
            .c = data.channels,
            .classes = data.classes,
            .stem = o.stem,
            .label_smoothing = float(o.label_smoothing),
            .sum_loss = o.sum_loss};
}

Normalisation normalisation_of(const TrainOptions& o, const SplitInfo& data) {
    Normalisation n{data.mean, data.stddev};
    const auto replace = [&](const char* option, const NumberList& given, std::vector<float>& by_channel) {
        if (given.values.empty()) return;
        if (int(given.values.size()) != data.channels)
            fail(Exit::usage, "--" + std::string(option) + " " + given.text + ": the images have " +
                                  std::to_string(data.channels) + " channels; give one number each");
        by_channel.assign(given.values.begin(), given.values.end());
    };
    replace("mean", o.mean, n.mean);
    replace("stddev", o.stddev, n.stddev);
    for (float& deviation : n.stddev)
        if (deviation <= 0) deviation = 1;  // a constant channel carries nothing to scale
    return n;
}

namespace {

int64_t global_batch_of(const TrainOptions& o, const SplitInfo& data, int ranks) {
    const int64_t batch = o.batch_size > 0 ? o.batch_size : o.batch_per_rank * ranks;
    if (batch < ranks)
        fail(Exit::usage, "--batch-size " + std::to_string(o.batch_size) + " is smaller than the " +
                              std::to_string(ranks) + " ranks; each rank needs at least one sample a step");
    if (batch > data.images && o.drop_last)
        fail(Exit::usage, "--drop-last leaves nothing: a global batch of " + std::to_string(batch) +
                              " is larger than the " + std::to_string(data.images) +
                              " training images; lower the batch");
    return batch;
}

/// Vectors (f32) are taken as they are, and have no left and right.
void check_vectors(const TrainOptions& o) {
    for (const auto& [given, option] :
         {std::pair{o.crop_pad > 0, "--crop-pad"}, {o.flip, "--flip"}, {o.tta != Tta::plain, "--tta"}})
        if (given)
            fail(Exit::usage, std::string(option) + " is for images, and " + o.data + " holds vectors; leave it out");
    if (o.model.starts_with("airbench94"))
        fail(Exit::usage, "--model " + o.model + " takes images, and " + o.data + " holds vectors; choose another one");
}

/// The optimizer, and what it does to each kind of parameter.
void set_rules(const TrainOptions& o, TrainSetup& s) {
    s.optimizer = optimizer_of(o);
    s.schedule = schedule_of(o, s.global_batch);
    s.weight_decay = weight_decay_of(o, s.global_batch);
    s.decoupled_decay = o.decoupled_decay;
    s.decay_weights_only = o.decay_weights_only;
    s.norm_shift_rate = o.norm_shift_lr;
    s.filter_rate = o.filter_lr;
    s.linear_rate = o.linear_lr;
    s.muon = o.optimizer == OptimizerChoice::muon;
    s.whitening_bias_epochs = o.whitening_bias_epochs;
    s.look_ahead = o.look_ahead;
    s.look_ahead_decay = o.look_ahead_decay;
}

}  // namespace

TrainSetup setup_of(const TrainOptions& o, const SplitInfo& data, int ranks,
                    std::optional<Clock::time_point> deadline) {
    TrainSetup s;
    if (data.type == DType::f32) check_vectors(o);
    s.global_batch = global_batch_of(o, data, ranks);
    set_rules(o, s);
    s.tta = o.tta;
    s.augment = augment_of(o);
    if (s.augment.reflect && s.augment.pad >= std::min(data.height, data.width))
        fail(Exit::usage,
             "--crop-pad " + std::to_string(o.crop_pad) + ": reflected padding must be smaller than the image");
    s.normalisation = normalisation_of(o, data);
    s.epochs = o.epochs;
    s.max_steps = o.max_steps;
    s.eval_every = o.eval_every;
    s.log_interval = o.log_interval;
    s.metrics_every = o.metrics_every;
    s.drop_last = o.drop_last;
    s.sync_bn = o.sync_bn;
    s.bucket_bytes = size_t(o.bucket_mib * (1 << 20));
    s.seed = uint64_t(o.seed);
    s.checkpoint_steps = o.checkpoint.steps;
    s.checkpoint_epochs = o.checkpoint.epochs;
    s.checkpoint_seconds = o.checkpoint.seconds;
    s.deadline = deadline;
    s.on_nan = o.on_nan;
    return s;
}

}  // namespace convoy
