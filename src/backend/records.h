// Plain structs that the host fills in and kernels take: what a step reads and writes on a device.
// Nothing here owns device memory or knows of a backend.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/mix.h"
#include "backend/update_rule.h"
#include "base/host_device.h"
#include "base/image_place.h"
#include "base/tensor.h"

namespace convoy {

/// The device's own counters; one a phase (training, evaluation).
struct Counters {
    int64_t step = 0;    ///< optimizer steps done
    int64_t epoch = 0;   ///< from 0
    int64_t offset = 0;  ///< first sample of the next global batch, in the order of this epoch
};

/// Sums over a global batch. They open the gradient arena, so the first bucket's all-reduce sums
/// them too.
struct BatchStats {
    float loss_sum = 0;                        ///< summed, not averaged, cross-entropy
    float correct = 0, top5 = 0;               ///< images whose label is the best, among the best five; below 2^24
    float stop = 0, checkpoint = 0, hold = 0;  ///< number of ranks that ask for it
    /// 1 if Backend::update skipped the step: its loss or a gradient was not finite
    float skipped = 0;

    CONVOY_HD BatchStats& operator+=(const BatchStats& s) {
        loss_sum += s.loss_sum;
        correct += s.correct;
        top5 += s.top5;
        stop += s.stop;
        checkpoint += s.checkpoint;
        hold += s.hold;
        skipped += s.skipped;
        return *this;
    }
};
static_assert(sizeof(BatchStats) == 7 * sizeof(float));
constexpr size_t stats_elements = 16;  ///< BatchStats padded to an alignment unit of the arena

/// One row of the device's metrics ring, written by the last step of a training tape.
struct StepRecord {
    int64_t step = 0;                                  ///< optimizer steps done, from 1
    double loss = 0, accuracy = 0, top5_accuracy = 0;  ///< means over the images of all ranks
    double learning_rate = 0;
    double step_seconds = 0, data_seconds = 0, comm_exposed_seconds = 0;
    bool stop = false, checkpoint = false, hold = false;  ///< some rank asked for it
    bool skipped = false;                                 ///< not finite: the weights are those of the step before
    int64_t images = 0, own_images = 0;                   ///< of all ranks; of this one
    BatchStats own;                                       ///< sums over this rank's images alone
};

/// What ends a training step: it writes ring[step % ring_size] and moves the counters on. Pointers
/// are to the device.
struct Record {
    const BatchStats* stats;  ///< summed over ranks
    const BatchStats* own;    ///< as Backend::request kept them; null: this rank's are not recorded
    const float* learning_rates;
    StepRecord* ring;
    int64_t ring_size;
    Counters* counters;
    int64_t batch, global_batch;  ///< images of this rank, of all
    int own_count = 1;            ///< `own` has the sums of so many logical ranks; theirs is recorded
};

/// Totals of an evaluation on this rank.
struct EvalTotals {
    double loss_sum = 0;
    int64_t correct = 0, top5 = 0, images = 0;
};

/// A batch that the host supplied, by position in the batch. Pointers are to the device. Of a batch
/// that is mixed the arrays have n + 1 elements: the partner of the last image, too.
struct StagedBatch {
    /// u8 or f32 pixels. Image i begins at places[i].offset bytes, a multiple of the pixels' size
    /// that may be negative: only the rows that its crop shows need be there
    const void* images;
    const int32_t* labels;     ///< [n]
    const int32_t* samples;    ///< [n]: which sample of the split each is, for its draws
    const ImagePlace* places;  ///< [n]: also of images of one size
};

/// Reads a batch out of the data set, which lies on the device.
struct Gather {
    Tensor images, labels;            ///< device u8 or f32 [N, h, w, c], i32 [N]: the whole split
    const int32_t* order = nullptr;   ///< device [N]: permutation of the epoch; null: the identity
    const Counters* counters;         ///< device
    Tensor x, y;                      ///< outputs, device: [n, h, w, c] normalised, i32 [n]
    int64_t first;                    ///< this rank's first position in the global batch
    std::vector<float> mean, stddev;  ///< host, by channel, in units of pixel / 255; f32: of the values
    Augment augment;                  ///< shifted: x has the images' height and width
    uint64_t seed = 0;
    /// device [N]: of images of many sizes (u8, one after the other), of which images.shape has the
    /// largest; null: they are all of that shape
    const ImagePlace* places = nullptr;
    /// device; not null: the batch is here, and the data of images and labels, order, places and
    /// first are not read. images.shape and dtype still say what images are.
    const StagedBatch* staged = nullptr;
    int64_t staged_first = 0;  ///< which image of that batch is this one's first
    bool begins_step = true;   ///< the step's time, and that of its data, are taken here
    // If augment.mixes():
    int64_t global_batch = 0;  ///< images of all ranks
    MixedLabels mixed{};       ///< outputs

    /// Fails if the parts do not fit one another; each backend asks.
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
    /// Position of image i of this rank in the global batch. Its partner is image i + 1, of the
    /// last one the first of the batch.
    int64_t position(int64_t i) const { return first + i == global_batch ? 0 : first + i; }
    /// x = v * scale(c) + shift(c)
    float scale(size_t c) const { return 1 / ((images.dtype == DType::u8 ? 255.0f : 1.0f) * stddev[c]); }
    float shift(size_t c) const { return -mean[c] / stddev[c]; }
};

/// A run of consecutive arena elements with one rule.
struct UpdateSegment {
    size_t begin, end;
    float weight_decay;
    float learning_rate = 1;    ///< times the step's
    int64_t steps = INT64_MAX;  ///< trained while Counters::step is below this, constant afterwards
    int rows = 0, columns = 0;  ///< of a matrix at `begin` that Muon updates; 0: none
};
struct Update {
    OptimizerSpec spec;
    float *weights, *gradients;  ///< device arenas, same offsets; the gradients begin with the batch sums
    float* state;                ///< [state_per_element][count]
    size_t count;
    std::vector<UpdateSegment> segments;
    const float* learning_rates;  ///< device, by step from 0
    const Counters* counters;
    BatchStats* stats;  ///< device, after the all-reduce
    bool latch;         ///< after one skipped step, skip all: the weights stay those that made a NaN
};

/// Look-ahead (Zhang et al., "Lookahead Optimizer", 2019) of weights and running statistics.
/// Slow weights: every k steps slow += (1 - decay) * (w - slow), then w = slow.
struct LookAhead {
    float *weights, *slow;                ///< device arenas with the same offsets
    size_t count;                         ///< elements
    std::vector<UpdateSegment> segments;  ///< of the weights, as in Update
    float *running, *slow_running;        ///< device [running_count]
    size_t running_count;
    const float* decays;       ///< device, by completed step, this one included; negative: no update
    const Counters* counters;  ///< device; the current step is not counted yet
    const BatchStats* stats;   ///< device: no update after a skipped step; null: never skipped
};

}  // namespace convoy
