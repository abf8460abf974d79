#include "cli/train_setup.h"

#include "base/error.h"
#include "cli/auto_rate.h"

namespace convoy {

void derive_fields(TrainOptions& o) {
    if (!o.lr_schedule) o.lr_schedule = o.lr ? Schedule::constant : Schedule::cosine;
    if (!o.warmup_epochs && (o.lr || o.lr_schedule == Schedule::linear)) o.warmup_epochs = 0;
    TrainSetup& s = o.setup;
    s.optimizer.kind = o.optimizer == OptimizerChoice::adam ? OptimizerSpec::adam : OptimizerSpec::sgd;
    s.optimizer.momentum = float(o.momentum);
    s.muon = o.optimizer == OptimizerChoice::muon;
    s.sync_bn = o.backend.sync_bn;
    s.bucket_bytes = size_t(o.bucket_mib * (1 << 20));
    o.backend.invariant = o.virtual_ranks > 0 || o.accumulate > 0;
    o.placement.stream_block = size_t(o.stream_block_mib * (1 << 20));
    o.placement.here = o.chip.empty();
}

namespace {

/// Returns true if rates have the unit kilostep. Adam ignores it, because its steps do not grow
/// with momentum.
bool per_kilostep(const TrainOptions& o) { return o.lr_per_kilostep && o.optimizer != OptimizerChoice::adam; }

/// Returns the divisor of --lr-unit kilostep, as airbench defines this unit: 1024 samples times
/// 1 + 1 / (1 - momentum).
double kilostep(const TrainOptions& o) { return 1024 * (1 + 1 / (1 - o.momentum)); }

/// Returns the share of a weight that a step subtracts at a learning rate of 1. With decoupled
/// weight decay, it is the share at the schedule's base rate.
double weight_decay_of(const TrainOptions& o, int64_t global_batch) {
    return per_kilostep(o) ? o.setup.weight_decay * double(global_batch) / kilostep(o) : o.setup.weight_decay;
}

}  // namespace

Schedule schedule_of(const TrainOptions& o, int64_t global_batch, int64_t images) {
    const double rate = o.lr ? o.lr->at(global_batch) : auto_rate(o, global_batch, images).rate;
    Schedule s = o.setup.schedule;
    s.kind = o.lr_schedule.value();
    s.base = per_kilostep(o) ? rate / kilostep(o) : rate;
    s.warmup_epochs = o.warmup_epochs ? *o.warmup_epochs : auto_warmup_epochs(o, global_batch, images);
    return s;
}

namespace {

void check_logical_ranks(const TrainOptions& o) {
    if (o.virtual_ranks > 0 && o.accumulate > 0)
        fail(Exit::usage, "--accumulate is short for --virtual-ranks; leave one of them out");
    if (o.virtual_ranks == 0 && o.accumulate == 0) return;
    const std::string asked = o.accumulate > 0 ? "--accumulate" : "--virtual-ranks";
    if (o.backend.sync_bn)
        fail(Exit::usage, asked +
                              " computes the logical ranks of a rank one after the other, and --sync-bn needs "
                              "all of a layer at once; leave one of them out");
    if (o.backend.bf16_gradients)
        fail(Exit::usage, asked + " sums gradients as integers, not in bf16; leave --bf16-gradients out");
}

/// Returns the number of logical ranks that share a batch; 0: the ranks themselves share it.
int64_t logical_ranks_of(const TrainOptions& o, int ranks) {
    check_logical_ranks(o);
    if (o.virtual_ranks > 0 && o.virtual_ranks < ranks)
        fail(Exit::usage, "--virtual-ranks " + std::to_string(o.virtual_ranks) + " is less than the " +
                              std::to_string(ranks) + " ranks, each of which computes at least one; use fewer ranks");
    return o.accumulate > 0 ? o.accumulate * ranks : o.virtual_ranks;
}

/// Returns the number of logical ranks, or of ranks if there are no logical ones.
int64_t parts_of_batch(const TrainOptions& o, int ranks) {
    const int64_t logical = logical_ranks_of(o, ranks);
    return logical > 0 ? logical : ranks;
}

int64_t global_batch_of(const TrainOptions& o, const SplitInfo& data, int ranks) {
    const int64_t batch = asked_batch(o, ranks), parts = parts_of_batch(o, ranks);
    if (batch < parts)
        fail(Exit::usage, "--batch-size " + std::to_string(o.batch_size) + " is smaller than the " +
                              std::to_string(parts) + " ranks; each rank needs at least one sample per step");
    if (batch == 1 && (o.setup.augment.mixup > 0 || o.setup.augment.cutmix > 0))
        fail(Exit::usage, std::string(o.setup.augment.mixup > 0 ? "--mixup" : "--cutmix") +
                              " mixes the images of a batch, and a batch of one has no other; raise the batch");
    if (batch > data.images && o.setup.drop_last)
        fail(Exit::usage, "--drop-last leaves nothing: a global batch of " + std::to_string(batch) +
                              " is larger than the " + std::to_string(data.images) +
                              " training images; lower the batch");
    return batch;
}

}  // namespace

int64_t asked_batch(const TrainOptions& o, int ranks) {
    return o.batch_size > 0 ? o.batch_size : o.batch_per_rank * parts_of_batch(o, ranks);
}

TrainSetup setup_of(const TrainOptions& o, const SplitInfo& data, int ranks,
                    std::optional<Clock::time_point> deadline) {
    check_images(o, data);
    TrainSetup s = o.setup;
    s.logical_ranks = logical_ranks_of(o, ranks);
    s.global_batch = global_batch_of(o, data, ranks);
    s.schedule = schedule_of(o, s.global_batch, data.images);
    s.weight_decay = weight_decay_of(o, s.global_batch);
    s.preprocessing = preprocessing_of(o, data);
    s.augment = augment_of(o, data);
    s.deadline = deadline;
    return s;
}

}  // namespace convoy
