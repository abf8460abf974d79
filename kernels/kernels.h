// Launchers of Convoy's CUDA kernels, in plain C++. Each puts one to four kernels on the stream.
// None allocates or synchronises, so a CUDA graph can capture all of them. Every sum has a fixed
// order that depends on shapes alone: same input, same bits, on any chip.
//
// All pointers are of the device unless said otherwise. Operands that do not fit together throw
// std::logic_error. Any alignment works; the fast path takes 16-byte aligned data whose channels
// fill 16 bytes. Activations and their gradients are NHWC tensors of f32, f16 or bf16, one type in
// a call; arithmetic is f32. shape.c counts stored channels. A launcher with `channels` knows the
// real ones: the rest is padding, zero in inputs, and written as zero. Launchers without it keep
// zero padding zero. Parameters are dense f32 vectors of the real channels.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/exact_sums.h"
#include "backend/jitter.h"
#include "backend/records.h"
#include "model/graph.h"

namespace convoy::kernels {

// ---- gather.cu ----------------------------------------------------------------------------------
/// What is drawn for all images of a batch before they are read; device.
struct BatchDraws {
    const Mix* mixes = nullptr;  ///< [n]: as draw_mixes() wrote them; null: images are not mixed
    /// [n], of a batch that is mixed [n + 1]: memory for gather() and resample(), which write it
    /// first; null: colours are not jittered
    Jitter* jitters = nullptr;
};

/// Writes g.x [n, h, w, stored] from g.images [N, h, w, c], c <= stored, with zero padding, and g.y
/// [n]. scale and shift [c], device: a normalised value is v * scale + shift, so scale = 1 / (255
/// stddev), shift = -mean / stddev. g.mean and g.stddev are not read. Of a staged batch, g.staged
/// and what it points to may change between launches. One kernel, or two where colours are
/// jittered.
void gather(const Gather& g, const float* scale, const float* shift, const BatchDraws&, cudaStream_t);

// ---- resample.cu --------------------------------------------------------------------------------
/// As gather(), where g.augment.crop is not Crop::shifted: of images of any size, u8.
void resample(const Gather& g, const float* scale, const float* shift, const BatchDraws&, cudaStream_t);

// ---- mix.cu -------------------------------------------------------------------------------------
/// Before gather() or resample() of a batch that is mixed: writes mixes [n] for these, and g.mixed.
void draw_mixes(const Gather& g, Mix* mixes, cudaStream_t);

// ---- batchnorm.cu, batchnorm_gradient.cu --------------------------------------------------------
enum class Act { identity, relu, gelu };

/// y = act(scale * (x - mean) * invstd + bias + residual) over the rows (pixels) of x. A tensor
/// without data is not there.
struct BatchNormArgs {
    Tensor x, y;                ///< [n, h, w, stored], same shape; y may be x in inference
    Tensor residual;            ///< [n, h, w, its own stored channels]; identity and ReLU only
    int channels = 0;           ///< real ones of x and y
    int residual_channels = 0;  ///< real ones of residual, at most `channels`: the missing ones count as zero
    Act act = Act::identity;
    const float *scale = nullptr, *bias = nullptr;  ///< [channels]; no scale: 1
    /// [stored], of the batch, 0 in padding: from forward to backward
    float *mean = nullptr, *invstd = nullptr;
    float *running_mean = nullptr, *running_var = nullptr;  ///< [channels]
    /// a new batch weighs `momentum` in the running statistics
    float epsilon = 0, momentum = 0;

    // If there is an image, x is its max-pool over adjacent `pool` x `pool` windows, and forward
    // also computes x and index.
    Tensor image{};            ///< [n, x.h * pool and up to pool - 1 more, w likewise, stored]
    int pool = 0;              ///< 2 or 3
    uint8_t* index = nullptr;  ///< as in pool_forward; null in inference, which does not write x either
};
struct BatchNormGradients {
    Tensor dy, dx;                              ///< like x; dx may be dy
    Tensor dresidual;                           ///< like residual; not dy; dx only where accumulate_dx is set
    float *dscale = nullptr, *dbias = nullptr;  ///< [channels], of this rank's rows; dscale may be null
    bool accumulate_dx = false, accumulate_dresidual = false;
};

/// Bytes of `workspace` for x of this shape: partial sums, then the sums themselves as doubles. Its
/// contents matter within a call only: one of the largest size serves all ops of a stream.
size_t batch_norm_workspace(const Shape& x);

/// Training: statistics of this rank's batch, running statistics, y. Three kernels.
void batch_norm_forward(const BatchNormArgs&, void* workspace, cudaStream_t);
/// The same if the producing convolution also wrote the sums of x and x^2 over rows, each [stored].
/// Two kernels.
void batch_norm_forward(const BatchNormArgs&, const float* sum, const float* squares, cudaStream_t);
/// Only the statistics, for a consumer that computes relu(scale * x + bias) itself. Both vectors
/// are like a pixel of x, in its type, 0 in padding. One kernel.
void batch_norm_statistics(const BatchNormArgs&, const float* sum, const float* squares, void* scale, void* bias,
                           cudaStream_t);
/// y by the running statistics.
void batch_norm_inference(const BatchNormArgs&, cudaStream_t);
/// Reads x, mean and invstd. ReLU's mask comes from y if there is a residual; else the input of the
/// activation is recomputed. dresidual, where it is the masked dy, is written before dx and read
/// for it, in place of dy and y. GELU's dy becomes dy times the derivative. Three kernels.
void batch_norm_backward(const BatchNormArgs&, const BatchNormGradients&, void* workspace, cudaStream_t);
/// Only dx: dy is already masked, dscale and dbias already written. Two kernels.
void batch_norm_backward_of_sums(const BatchNormArgs&, const BatchNormGradients&, void* workspace, cudaStream_t);

// The same in halves for statistics over all ranks: between them, sum `sums` [2 * channels + 1]
// over ranks. Its last element counts rows. A rank may have no rows.
void batch_norm_sums(const BatchNormArgs&, double* sums, void* workspace, cudaStream_t);
void batch_norm_normalise(const BatchNormArgs&, const double* sums, cudaStream_t);  ///< statistics from sums, then y
void batch_norm_gradient_sums(const BatchNormArgs&, const BatchNormGradients&, double* sums, void* workspace,
                              cudaStream_t);  ///< and dscale, dbias, dresidual where it is the masked dy, GELU's dy
/// With the operands of batch_norm_gradient_sums.
void batch_norm_gradient_apply(const BatchNormArgs&, const BatchNormGradients&, const double* sums, cudaStream_t);

// ---- running.cu ---------------------------------------------------------------------------------
/// New running statistics, and where they belong.
struct Span {
    const float* from;
    float* to;
    int count;
};
/// to = from, element by element, if from is finite. `spans` lies on the device. One kernel.
void commit_finite(const Span* spans, int count, cudaStream_t);

// ---- elementwise.cu -----------------------------------------------------------------------------
void relu_forward(const Tensor& x, const Tensor& y, cudaStream_t);
void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, bool accumulate, cudaStream_t);
void gelu_forward(const Tensor& x, const Tensor& y, cudaStream_t);
void gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate, cudaStream_t);
/// to = factor * from, or to += factor * from.
void scale(const Tensor& from, float factor, const Tensor& to, bool accumulate, cudaStream_t);
/// y = a + b; y may be either.
void add_forward(const Tensor& a, const Tensor& b, const Tensor& y, cudaStream_t);
/// to = from, or to += from: the gradient of an addition, for one operand.
void add_backward(const Tensor& from, const Tensor& to, bool accumulate, cudaStream_t);

// ---- pool.cu ------------------------------------------------------------------------------------
/// x [n, h, w, c] -> y [n, h', w', c], of which the pool's kernel, stride and pad are read; a
/// global pool has kernel = h = w. index, uint8 [n, h', w', c]: which pixel of its window (row by
/// row) a maximum is, the first of equal ones; null where no backward follows, and for averages. A
/// maximum's kernel is at most 16 with an index.
void pool_forward(const Pool&, const Tensor& x, const Tensor& y, uint8_t* index, cudaStream_t);
void pool_backward(const Pool&, const Tensor& dy, const Tensor& dx, const uint8_t* index, bool accumulate,
                   cudaStream_t);

// ---- shortcut.cu --------------------------------------------------------------------------------
/// y = x, or its 2x2 average if stride is 2, with zero channels appended. x and y may be padded.
void pad_shortcut_forward(int stride, const Tensor& x, const Tensor& y, cudaStream_t);
/// channels: the real ones of dx. dy's further channels are gradients of the appended zeros, and
/// are not read.
void pad_shortcut_backward(int stride, const Tensor& dy, const Tensor& dx, int channels, bool accumulate, cudaStream_t);

// ---- dropout.cu ---------------------------------------------------------------------------------
/// out = in * mask / (1 - p), forward and backward alike; out may be in. The mask is the CPU
/// backend's, bit for bit: it counts the `channels` real ones. `first` and `counters` as in Bound.
void dropout(const Dropout&, const Tensor& in, const Tensor& out, int channels, uint64_t seed, int64_t first,
             const Counters* counters, bool accumulate, cudaStream_t);

// ---- loss.cu ------------------------------------------------------------------------------------
/// Softmax cross-entropy of x [n, 1, 1, stored] with labels [n]; in double, a row at a time.
struct LossArgs {
    Tensor x;
    int classes = 0;  ///< real ones
    const int32_t* labels = nullptr;
    float label_smoothing = 0;
    MixedLabels mixed{};  ///< [n] each, or null
};
/// Bytes of workspace for n rows.
size_t loss_workspace(int n);
/// Writes stats->loss_sum, correct and top5. Two kernels.
void loss_forward(const LossArgs&, BatchStats* stats, void* workspace, cudaStream_t);
/// dx = gradient of the mean over global_batch, times *loss_scale (device) unless that is null.
void loss_backward(const LossArgs&, const Tensor& dx, int64_t global_batch, const float* loss_scale, cudaStream_t);

// ---- linear.cu ----------------------------------------------------------------------------------
/// Bytes of workspace for dy.
size_t bias_gradient_workspace(const Shape& dy);
/// db [channels] = sum over the rows (pixels) of dy. Two kernels.
void bias_gradient(const Tensor& dy, int channels, float* db, void* workspace, cudaStream_t);

// ---- bias.cu ------------------------------------------------------------------------------------
/// to = from + bias [real channels]; both have the same pixels and real channels, padding of `to`
/// is written as zero. The types may differ; to may be from.
void add_bias(const Tensor& from, const float* bias, const Tensor& to, cudaStream_t);

// ---- cast.cu ------------------------------------------------------------------------------------
/// from f32 [rows, channels], dense, to a tensor of any activation type whose shape has at least as
/// many channels and pixels; further channels and rows become zero. A convolution weight [out, k,
/// k, in] has out * k * k rows.
void pad(const float* from, int64_t rows, int channels, const Tensor& to, cudaStream_t);
/// The reverse for gradients: the first `rows` and `channels` of a tensor to f32, dense.
void crop(const Tensor& from, int64_t rows, int channels, float* to, cudaStream_t);

// ---- optimizer.cu, loss_scale.cu ----------------------------------------------------------------
/// A parameter in the arena and its padded copy in the precision of the convolutions. A table of
/// them lies on the device, ascending and without overlap. Elements between them (the batch sums)
/// stay untouched.
struct Segment {
    int64_t begin, end;  ///< elements of the arena; multiples of 4
    float weight_decay;
    float learning_rate = 1;    ///< times the step's
    int64_t steps = INT64_MAX;  ///< trained while Counters::step is below this, constant afterwards
    void* copy = nullptr;       ///< null: none
    DType copy_type = DType::f32;
    /// real elements from `begin`, [count / channels, channels]; arena padding follows
    int64_t count = 0;
    int channels = 1, stored = 1;  ///< channels of the arena's tensor and of the copy, whose padding stays untouched
    const float *direction = nullptr, *rescale = nullptr;  ///< of a MuonMatrix: w = *rescale * w - rate * direction
};

/// The device skips the update of a step whose loss or gradients are not finite. In f16, gradients
/// come multiplied by `scale`. On the device.
struct LossScale {
    float scale = 65536;
    int32_t finite = 1;      ///< cleared by check_finite, set again by adjust_loss_scale
    int32_t good_steps = 0;  ///< since the scale last changed
    int32_t skipped = 0;     ///< updates skipped so far
};
/// Clears state->finite if a gradient is infinite or not a number.
void check_finite(const float* gradients, size_t count, LossScale* state, cudaStream_t);
/// After check_finite. Also skips the update if the loss is not finite, or if `latch` is set and
/// the previous one was skipped. Writes stats->skipped, but not for an overflow that a lower scale
/// can mend (`scaled`).
void decide_update(LossScale* state, BatchStats* stats, bool latch, bool scaled, cudaStream_t);
/// After the update: halves the scale after a skipped one, doubles it after `growth_interval` good
/// ones. An interval of 0 keeps it.
void adjust_loss_scale(LossScale* state, int growth_interval, cudaStream_t);

/// One step of the optimizer over all segments and their copies; u.segments is not read. loss_scale
/// may be null. One kernel.
void update(const Update& u, const Segment* segments, int segment_count, const LossScale* loss_scale, cudaStream_t);

/// Slow weights: slow += (1 - decay) * (w - slow), then w = slow, copies too. decays: by completed
/// step; counters->step + 1 is the current one. No update if the decay is negative, or if stats is
/// given and says `skipped`. slow has w's offsets. Segments of running statistics have no copies.
void look_ahead(float* w, float* slow, const Segment* segments, int segment_count, size_t count, const float* decays,
                const Counters* counters, const BatchStats* stats, cudaStream_t);

// ---- muon.cu ------------------------------------------------------------------------------------
/// A matrix [rows, columns] at `begin` of the arenas that Muon updates, and its own scratch.
struct MuonMatrix {
    static constexpr int parts = 64;  ///< partial sums over a matrix
    int64_t begin, steps;             ///< steps as in Segment
    int rows, columns;
    /// [rows * columns, rounded up to 16]; orthogonalise writes the result to direction()
    float* x[2];
    float *gram, *polynomial;  ///< [n, n], n the smaller of rows and columns
    double* squares;           ///< [parts][2]
    float* rescale;            ///< factor for the weights: root(rows) / their norm
    const float* direction() const { return x[muon_iterations % 2]; }
};
/// Writes the directions of all matrices for the update that follows, and advances velocities
/// (u.state). If the step is not finite: neither. `matrices` lies on the device, `host` is the same
/// on the host. u.segments is not read. Several kernels.
void orthogonalise(const Update& u, const MuonMatrix* matrices, const std::vector<MuonMatrix>& host,
                   const LossScale* loss_scale, cudaStream_t);

// ---- exact_sums.cu ------------------------------------------------------------------------------
/// As Backend::deposit, of a table of pieces on the device, whose bounds are multiples of 4. The
/// arena of integers begins at a multiple of 32 bytes, that of gradients at one of 16. One kernel.
void deposit(const ExactSums&, const float* gradients, const ExactPiece* pieces, int count, cudaStream_t);
/// As Backend::withdraw, after the sums: of all pieces of the arena. Two kernels.
void withdraw(const ExactSums&, const ExactPiece* pieces, int count, float* gradients, cudaStream_t);

// ---- record.cu ----------------------------------------------------------------------------------
/// Marks of the running step, in nanoseconds of the device's clock.
struct StepTimes {
    uint64_t started = 0, gathered = 0;
    uint64_t wait_began = 0, wait_ended = 0;  ///< the compute lane's wait for all-reduces
};
/// Writes the time now.
void mark(uint64_t* when, cudaStream_t);
/// requests [3]: stop, checkpoint and hold, host memory that the device can read (the integers of
/// Requests, pinned); null: none. `own` as Backend::request.
void request(const int* requests, BatchStats* stats, BatchStats* own, cudaStream_t);
/// As Backend::record.
void record(const Record&, const StepTimes*, cudaStream_t);
/// As Backend::accumulate.
void accumulate(const BatchStats*, EvalTotals*, int64_t images, Counters*, int64_t global_batch, cudaStream_t);

}  // namespace convoy::kernels
