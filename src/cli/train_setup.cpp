#include "cli/train_setup.h"

#include "base/error.h"
#include "cli/auto_rate.h"

namespace convoy {

BackendOptions backend_options_of(const TrainOptions& o) {
    BackendOptions b;
    b.threads = int(o.threads);
    b.sync_bn = o.sync_bn;
    b.invariant = o.virtual_ranks > 0 || o.accumulate > 0;
    b.precision = o.precision;
    b.bind = o.bind;
    b.devices = o.devices;
    b.share_device = o.share_device;
    b.capture = !o.no_graph;
    b.one_stream = o.one_stream;
    b.bf16_gradients = o.bf16_gradients;
    b.norm_by = o.norm_by;
    b.tune_seconds = o.tune_seconds;
    b.conv_by = o.conv_by;
    return b;
}

bool takes_checkpoints(const TrainOptions& o) {
    return o.checkpoint.steps > 0 || o.checkpoint.epochs > 0 || o.checkpoint.seconds > 0;
}

PlacementWish placement_of(const TrainOptions& o) {
    return {o.placement, size_t(o.stream_block_mib * (1 << 20)), o.chip.empty()};
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

/// Returns the divisor of --lr-unit kilostep: samples, times the growth of a step under Nesterov
/// momentum and a constant gradient.
double kilostep(const TrainOptions& o) { return 1024 * (1 + 1 / (1 - o.momentum)); }

/// Returns the weight decay of a step at a rate of 1 or, decoupled, at the base rate.
double weight_decay_of(const TrainOptions& o, int64_t global_batch) {
    return per_kilostep(o) ? o.weight_decay * double(global_batch) / kilostep(o) : o.weight_decay;
}

}  // namespace

Schedule schedule_of(const TrainOptions& o, int64_t global_batch, int64_t images) {
    const double rate = o.lr ? o.lr->at(global_batch) : auto_rate(o, global_batch, images).rate;
    const double warmup = o.warmup_epochs ? *o.warmup_epochs : auto_warmup_epochs(o, global_batch, images);
    return {.kind = o.lr_schedule.value(),
            .base = per_kilostep(o) ? rate / kilostep(o) : rate,
            .warmup_epochs = warmup,
            .gamma = o.lr_gamma,
            .step_epochs = o.lr_step_epochs,
            .milestones = o.lr_milestones,
            .points = o.lr_points.points,
            .points_of_run = o.lr_points.of_run};
}

namespace {

void check_logical_ranks(const TrainOptions& o) {
    if (o.virtual_ranks > 0 && o.accumulate > 0)
        fail(Exit::usage, "--accumulate is short for --virtual-ranks; leave one of them out");
    if (o.virtual_ranks == 0 && o.accumulate == 0) return;
    const std::string asked = o.accumulate > 0 ? "--accumulate" : "--virtual-ranks";
    if (o.sync_bn)
        fail(Exit::usage, asked +
                              " computes the logical ranks of a rank one after the other, and --sync-bn needs "
                              "all of a layer at once; leave one of them out");
    if (o.bf16_gradients)
        fail(Exit::usage, asked + " sums gradients as integers, not in bf16; leave --bf16-gradients out");
}

/// Returns the number of logical ranks that share a batch; 0: the ranks themselves.
int64_t logical_ranks_of(const TrainOptions& o, int ranks) {
    check_logical_ranks(o);
    if (o.virtual_ranks > 0 && o.virtual_ranks < ranks)
        fail(Exit::usage, "--virtual-ranks " + std::to_string(o.virtual_ranks) + " is less than the " +
                              std::to_string(ranks) + " ranks, each of which computes at least one; use fewer ranks");
    return o.accumulate > 0 ? o.accumulate * ranks : o.virtual_ranks;
}

/// The logical ranks, or the ranks where there are none.
int64_t parts_of_batch(const TrainOptions& o, int ranks) {
    const int64_t logical = logical_ranks_of(o, ranks);
    return logical > 0 ? logical : ranks;
}

int64_t global_batch_of(const TrainOptions& o, const SplitInfo& data, int ranks) {
    const int64_t batch = asked_batch(o, ranks), parts = parts_of_batch(o, ranks);
    if (batch < parts)
        fail(Exit::usage, "--batch-size " + std::to_string(o.batch_size) + " is smaller than the " +
                              std::to_string(parts) + " ranks; each rank needs at least one sample a step");
    if (batch == 1 && (o.mixup > 0 || o.cutmix > 0))
        fail(Exit::usage, std::string(o.mixup > 0 ? "--mixup" : "--cutmix") +
                              " mixes the images of a batch, and a batch of one has no other; raise the batch");
    if (batch > data.images && o.drop_last)
        fail(Exit::usage, "--drop-last leaves nothing: a global batch of " + std::to_string(batch) +
                              " is larger than the " + std::to_string(data.images) +
                              " training images; lower the batch");
    return batch;
}

/// The optimizer, and what it does to each kind of parameter.
void set_rules(const TrainOptions& o, int64_t images, TrainSetup& s) {
    s.optimizer = optimizer_of(o);
    s.schedule = schedule_of(o, s.global_batch, images);
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

int64_t asked_batch(const TrainOptions& o, int ranks) {
    return o.batch_size > 0 ? o.batch_size : o.batch_per_rank * parts_of_batch(o, ranks);
}

TrainSetup setup_of(const TrainOptions& o, const SplitInfo& data, int ranks,
                    std::optional<Clock::time_point> deadline) {
    TrainSetup s;
    check_images(o, data);
    s.logical_ranks = logical_ranks_of(o, ranks);
    s.global_batch = global_batch_of(o, data, ranks);
    set_rules(o, data.images, s);
    s.tta = o.tta;
    s.preprocessing = preprocessing_of(o, data);
    s.augment = augment_of(o, data);
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
    s.checkpoint_at_end = takes_checkpoints(o);
    s.deadline = deadline;
    s.on_nan = o.on_nan;
    return s;
}

}  // namespace convoy
