// Plain structs that the host fills in and kernels take: what a step reads and writes on a device.
// They own no device memory and know no backend.
#pragma once
#include <cstdint>
#include <vector>

#include "base/host_device.h"
#include "base/image_place.h"
#include "base/tensor.h"
#include "ops/mix.h"
#include "ops/update_rule.h"

namespace convoy {

/// The counters of programs, on the device. Training has one set, an evaluation one per logical
/// rank.
struct Counters {
    int64_t step = 0;    ///< optimizer steps done
    int64_t epoch = 0;   ///< counted from 0
    int64_t offset = 0;  ///< first sample of the next global batch, in the order of this epoch
};

/// Sums over a global batch. They are the first elements of the gradient arena, so the first
/// bucket's all-reduce sums them too.
struct BatchStats {
    float loss_sum = 0;           ///< summed, not averaged, cross-entropy
    float correct = 0, top5 = 0;  ///< images whose label has the best logit, or one of the best five; exact below 2^24
    float stop = 0, checkpoint = 0, snapshot = 0;  ///< number of ranks with this request
    /// 1 if Backend::update skipped the step because its loss or a gradient was not finite
    float skipped = 0;

    CONVOY_HD BatchStats& operator+=(const BatchStats& s) {
        loss_sum += s.loss_sum;
        correct += s.correct;
        top5 += s.top5;
        stop += s.stop;
        checkpoint += s.checkpoint;
        snapshot += s.snapshot;
        skipped += s.skipped;
        return *this;
    }
};
static_assert(sizeof(BatchStats) == 7 * sizeof(float));
constexpr size_t stats_elements = 16;  ///< BatchStats padded to an alignment unit of the arena

/// One row of the device's metrics ring, written by the last launch of a training tape.
struct StepRecord {
    int64_t step = 0;                                  ///< optimizer steps done, from 1
    double loss = 0, accuracy = 0, top5_accuracy = 0;  ///< means over the images of all ranks
    double learning_rate = 0;
    double step_seconds = 0, data_seconds = 0, comm_exposed_seconds = 0;
    bool stop = false, checkpoint = false, snapshot = false;  ///< some rank requested it
    bool skipped = false;                ///< not finite: the weights are still those of the step before
    int64_t images = 0, own_images = 0;  ///< images of all ranks; of this rank
    BatchStats own;                      ///< sums over this rank's images alone
};

/// The operands of the last launch of a training step. It writes ring[step % ring_size] and
/// advances the counters. Pointers are to the device.
struct Record {
    const BatchStats* stats;  ///< all-reduced
    const BatchStats* own;    ///< kept by Backend::request; null: this rank's sums are not recorded
    const float* learning_rates;
    StepRecord* ring;
    int64_t ring_size;
    Counters* counters;
    int64_t batch, global_batch;  ///< images of this rank, of all ranks
    int own_count = 1;            ///< `own` has the sums of this many logical ranks; their total is recorded
};

/// Totals of an evaluation over the images of this rank, or of one of its logical ranks.
struct EvalTotals {
    double loss_sum = 0;
    int64_t correct = 0, top5 = 0, images = 0;
};

/// A batch supplied by the host, indexed by position in the batch. Pointers are to the device. If
/// the batch is mixed, the arrays have n + 1 elements: the last is the partner of the last image.
struct StagedBatch {
    /// u8 or f32 pixels. Image i begins at places[i].offset bytes, a multiple of the pixels' size.
    /// The first rows of an image may be missing if the crop does not read them. The offset is then
    /// where row 0 would begin, and may be < 0
    const void* images;
    const int32_t* labels;     ///< [n]
    const int32_t* samples;    ///< [n]: index of each sample in the split, from which its draws follow
    const ImagePlace* places;  ///< [n]: also set for images of one size
};

/// The operands of the launch that reads a batch out of the data set on the device.
struct Gather {
    Tensor images, labels;            ///< on the device: u8 or f32 [N, h, w, c], i32 [N]: the whole split
    const int32_t* order = nullptr;   ///< on the device, [N]: permutation of the epoch; null: the identity
    const Counters* counters;         ///< on the device
    Tensor x, y;                      ///< outputs on the device: normalised [n, h, w, c], i32 [n]
    int64_t first;                    ///< this rank's first position in the global batch
    std::vector<float> mean, stddev;  ///< on the host, per channel: of u8 pixels / 255, or of f32 values
    Augment augment;                  ///< Crop::shifted: x has the images' height and width
    uint64_t seed = 0;
    /// on the device, [N]: places of u8 images of many sizes, one after the other. images.shape is
    /// then the largest shape. Null: all images have that shape
    const ImagePlace* places = nullptr;
    /// on the device; if not null, the batch is here. Then the data of images and labels, order,
    /// places and first are not read. images.shape and dtype still describe the images.
    const StagedBatch* staged = nullptr;
    int64_t staged_first = 0;  ///< index in the staged batch of this launch's first image
    bool begins_step = true;   ///< this launch records when the step began, and when it had its batch
    // Used if augment.mixes():
    int64_t global_batch = 0;  ///< images of all ranks
    MixedLabels mixed{};       ///< outputs

    /// Checks that the parts fit one another; each backend calls it. Throws otherwise.
    void check() const {
        const Shape in = images.shape, out = x.shape;
        if (augment.crop == Crop::shifted)
            require(!places && in.h == out.h && in.w == out.w,
                    "gather: images that are not resized have the batch's size");
        else
            require(images.dtype == DType::u8, "gather: only pixels are resized");
        if (augment.crop == Crop::centre)
            require(augment.short_side >= out.h && augment.short_side >= out.w, "gather: the centre is cut out");
        if (augment.jitters())
            require(images.dtype == DType::u8 && in.c == 3 && out.c >= 3, "gather: jitter is of red, green and blue");
        if (augment.mixes())
            require(images.dtype == DType::u8 && mixed.partners && mixed.shares &&
                        (staged || first + out.n <= global_batch),
                    "gather: only pixels are mixed, within a batch, and have two labels");
    }
    /// Returns the position in the global batch of image i of this rank. An image's partner is
    /// image i + 1; the partner of the last image is the first image of the global batch.
    int64_t position(int64_t i) const { return first + i == global_batch ? 0 : first + i; }
    /// Returns the scale in x = v * scale(c) + shift(c), where v is a pixel.
    float scale(size_t c) const { return 1 / ((images.dtype == DType::u8 ? 255.0f : 1.0f) * stddev[c]); }
    float shift(size_t c) const { return -mean[c] / stddev[c]; }
};

/// Consecutive elements of the arena with one update rule.
struct UpdateSegment {
    size_t begin, end;
    float weight_decay;
    float learning_rate = 1;    ///< factor on the schedule's learning rate
    int64_t steps = INT64_MAX;  ///< updated while Counters::step is below this, constant afterwards
    int rows = 0, columns = 0;  ///< shape of the matrix at `begin` that Muon updates; 0: none
};
struct Update {
    OptimizerSpec spec;
    float *weights, *gradients;  ///< device arenas with the same offsets; the gradients begin with the batch sums
    float* state;                ///< [state_per_element][count]
    size_t count;
    std::vector<UpdateSegment> segments;
    const float* learning_rates;  ///< on the device, by step, counted from 0
    const Counters* counters;
    BatchStats* stats;  ///< on the device, after the all-reduce
    bool latch;         ///< after one skipped step skip all, so that the weights that produced the NaN remain
};

/// The operands of look-ahead averaging (Zhang et al., "Lookahead Optimizer", 2019) of weights and
/// running statistics. Every k steps slow += (1 - decay) * (w - slow), then w = slow.
struct LookAhead {
    float *weights, *slow;                ///< device arenas with the same offsets
    size_t count;                         ///< elements
    std::vector<UpdateSegment> segments;  ///< the weights' segments, see Update
    float *running, *slow_running;        ///< on the device, [running_count]
    size_t running_count;
    const float* decays;       ///< on the device, by number of completed steps including this one; negative: no update
    const Counters* counters;  ///< on the device; the current step is not counted yet
    const BatchStats* stats;   ///< on the device: no update after a skipped step; null: never skipped
};

}  // namespace convoy
