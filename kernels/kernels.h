// Launchers of Convoy's CUDA kernels, in plain C++. Each puts one or more kernels on the stream.
// None allocates or synchronises, so a CUDA graph can capture all of them. The order of every sum
// follows from shapes alone: equal inputs give equal bits on any chip.
//
// Pointers are to the device unless stated otherwise. Operands that do not fit together throw
// std::logic_error. Any alignment works; the fast path needs 16-byte aligned data, and pixels of a
// multiple of 16 bytes. Activations and their gradients are NHWC tensors of f32, f16 or bf16, one
// type per call; arithmetic is in f32. shape.c counts stored channels. The argument `channels`
// counts real ones; the others are padding, zero in inputs and written as zero. Launchers without
// it keep zero padding zero. Parameters are dense f32 vectors of the real channels.
#pragma once
#include <cuda_runtime_api.h>

#include "model/graph.h"
#include "ops/checksum.h"
#include "ops/exact_sums.h"
#include "ops/jitter.h"
#include "ops/records.h"

namespace convoy::kernels {

// ---- gather.cu ----------------------------------------------------------------------------------
/// Per-image draws of a batch, made before the images are read; on the device.
struct BatchDraws {
    const Mix* mixes = nullptr;  ///< [n], from draw_mixes(); null: images are not mixed
    /// [n], or [n + 1] if the batch is mixed: scratch that gather() and resample() write first;
    /// null: colours are not jittered
    Jitter* jitters = nullptr;
};

/// Writes g.x [n, h, w, stored] from g.images [N, h, w, c] with c <= stored and zero padding, and
/// g.y [n]. A value v is normalised to v * scale + shift; scale and shift are [c], on the device.
/// The caller computes scale = 1 / (255 stddev) and shift = -mean / stddev; g.mean and g.stddev are
/// not read.
/// g.staged and what it points to may change between launches. One kernel, or two if colours are
/// jittered.
void gather(const Gather& g, const float* scale, const float* shift, const BatchDraws&, cudaStream_t);

// ---- resample.cu --------------------------------------------------------------------------------
/// Does what gather() does for u8 images of any size, where g.augment.crop is not Crop::shifted.
void resample(const Gather& g, const float* scale, const float* shift, const BatchDraws&, cudaStream_t);

// ---- mix.cu -------------------------------------------------------------------------------------
/// Draws how a batch is mixed: writes mixes [n] for gather() or resample(), which follow, and
/// g.mixed.
void draw_mixes(const Gather& g, Mix* mixes, cudaStream_t);

// ---- batchnorm.cu, batchnorm_gradient.cu --------------------------------------------------------
enum class Act { identity, relu, gelu };

/// Operands of y = act(scale * (x - mean) * invstd + bias + residual) over the rows (pixels) of x.
/// A tensor without data is absent.
struct BatchNormArgs {
    Tensor x, y;                ///< [n, h, w, stored], same shape; y may be x in inference
    Tensor residual;            ///< [n, h, w, its own stored channels]; identity and ReLU only
    int channels = 0;           ///< real channels of x and y
    int residual_channels = 0;  ///< real channels of residual, at most `channels`: the missing ones count as zero
    Act act = Act::identity;
    const float *scale = nullptr, *bias = nullptr;  ///< [channels]; scale null: 1
    /// [stored], of the batch, 0 in padding; kept from forward to backward
    float *mean = nullptr, *invstd = nullptr;
    float *running_mean = nullptr, *running_var = nullptr;  ///< [channels]
    /// `momentum` is the weight of a new batch in the running statistics
    float epsilon = 0, momentum = 0;

    // If `image` has data, x is its max-pool over adjacent `pool` x `pool` windows, and forward
    // computes x and index too.
    Tensor image{};            ///< [n, h, w, stored]: h is x.h * pool and up to pool - 1 more; w likewise
    int pool = 0;              ///< 2 or 3
    uint8_t* index = nullptr;  ///< see pool_forward(); null in inference, which does not write x either
};
struct BatchNormGradients {
    Tensor dy, dx;     ///< like x; dx may be dy
    Tensor dresidual;  ///< like residual; must not be dy; may be dx only if accumulate_dx is set
    float *dscale = nullptr, *dbias = nullptr;  ///< [channels], over this rank's rows; null: frozen
    bool accumulate_dx = false, accumulate_dresidual = false;
};

/// Returns the bytes of `workspace` for x of this shape: partial sums, then the sums as doubles.
/// Its contents matter only within a call, so one of the largest size serves all ops of a stream.
size_t batch_norm_workspace(const Shape& x);

/// Forward in training: computes the statistics of this rank's batch, the running statistics, and
/// y. Three kernels.
void batch_norm_forward(const BatchNormArgs&, void* workspace, cudaStream_t);
/// Does the same if the convolution that produced x also wrote the sums of x and x^2 over rows,
/// each [stored]. Two kernels.
void batch_norm_forward(const BatchNormArgs&, const float* sum, const float* squares, cudaStream_t);
/// Computes only the statistics, for a reader that computes relu(scale * x + bias) itself. `scale`
/// and `bias` are [stored], of x's type, 0 in padding. One kernel.
void batch_norm_statistics(const BatchNormArgs&, const float* sum, const float* squares, void* scale, void* bias,
                           cudaStream_t);
/// Computes y with the running statistics.
void batch_norm_inference(const BatchNormArgs&, cudaStream_t);
/// Does the same in training, and writes mean and invstd for backward. Two kernels.
void batch_norm_fixed(const BatchNormArgs&, cudaStream_t);
/// Computes all gradients. Reads x, mean and invstd. ReLU's mask comes from y if there is a
/// residual; otherwise the input of the activation is recomputed. If dresidual is the masked dy, it
/// is written first, and dx is computed from it instead of from dy and y. GELU overwrites dy with
/// dy times the derivative. Three kernels.
void batch_norm_backward(const BatchNormArgs&, const BatchNormGradients&, void* workspace, cudaStream_t);
/// Computes only dx; dy is already masked, dscale and dbias are already written. Two kernels.
void batch_norm_backward_of_sums(const BatchNormArgs&, const BatchNormGradients&, void* workspace, cudaStream_t);
/// Computes dx and dresidual after batch_norm_fixed(): the statistics are constants. Two kernels.
void batch_norm_fixed_backward(const BatchNormArgs&, const BatchNormGradients&, void* workspace, cudaStream_t);

// Forward and backward in two calls each, for statistics over all ranks. Between the calls the
// caller must all-reduce `sums` [2 * channels + 1]. Its last element counts rows. A rank may have
// no rows.
void batch_norm_sums(const BatchNormArgs&, double* sums, void* workspace, cudaStream_t);
void batch_norm_normalise(const BatchNormArgs&, const double* sums, cudaStream_t);  ///< statistics from sums, then y
void batch_norm_gradient_sums(const BatchNormArgs&, const BatchNormGradients&, double* sums, void* workspace,
                              cudaStream_t);  ///< also writes dscale, dbias, a masked dresidual, and dy for GELU
/// Computes the rest, with the operands that batch_norm_gradient_sums() had.
void batch_norm_gradient_apply(const BatchNormArgs&, const BatchNormGradients&, const double* sums, cudaStream_t);

// ---- running.cu ---------------------------------------------------------------------------------
/// New running statistics, and the place they are copied to.
struct Span {
    const float* from;
    float* to;
    int count;
};
/// Copies each element of `from` that is finite to `to`. `spans` is on the device. One kernel.
void commit_finite(const Span* spans, int count, cudaStream_t);

// ---- elementwise.cu -----------------------------------------------------------------------------
void relu_forward(const Tensor& x, const Tensor& y, cudaStream_t);
void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, bool accumulate, cudaStream_t);
void gelu_forward(const Tensor& x, const Tensor& y, cudaStream_t);
void gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate, cudaStream_t);
/// Computes to = factor * from, or to += factor * from.
void scale(const Tensor& from, float factor, const Tensor& to, bool accumulate, cudaStream_t);
/// Computes y = a + b; y may be either operand.
void add_forward(const Tensor& a, const Tensor& b, const Tensor& y, cudaStream_t);
/// Computes to = from, or to += from: the gradient of an addition for one operand.
void add_backward(const Tensor& from, const Tensor& to, bool accumulate, cudaStream_t);

// ---- pool.cu ------------------------------------------------------------------------------------
/// Pools x [n, h, w, c] into y [n, h', w', c]. Only the pool's kind, kernel, stride and pad are
/// read; a global pool has kernel = h = w. `index`, uint8 [n, h', w', c], receives the position of
/// the maximum in its window, row by row; the first if several are equal. It is null for averages,
/// and if no backward follows. With an index the kernel is at most 16.
void pool_forward(const Pool&, const Tensor& x, const Tensor& y, uint8_t* index, cudaStream_t);
void pool_backward(const Pool&, const Tensor& dy, const Tensor& dx, const uint8_t* index, bool accumulate,
                   cudaStream_t);

// ---- shortcut.cu --------------------------------------------------------------------------------
/// Computes y = x, or its 2x2 average if stride is 2, with zero channels appended. x and y may be
/// padded.
void pad_shortcut_forward(int stride, const Tensor& x, const Tensor& y, cudaStream_t);
/// Computes dx, which has `channels` real channels. Further channels of dy are gradients of the
/// appended zeros, and are not read.
void pad_shortcut_backward(int stride, const Tensor& dy, const Tensor& dx, int channels, bool accumulate, cudaStream_t);

// ---- dropout.cu ---------------------------------------------------------------------------------
/// Computes out = in * mask / (1 - p), forward and backward alike; out may be in. The mask has the
/// CPU backend's bits, because padding takes no random numbers. `first` and `counters` are as in
/// OpArguments.
void dropout(const Dropout&, const Tensor& in, const Tensor& out, int channels, uint64_t seed, int64_t first,
             const Counters* counters, bool accumulate, cudaStream_t);

// ---- loss.cu ------------------------------------------------------------------------------------
/// Operands of the softmax cross-entropy of x [n, 1, 1, stored] with labels [n]. It is computed in
/// double, one row at a time.
struct LossArgs {
    Tensor x;
    int classes = 0;  ///< real channels
    const int32_t* labels = nullptr;
    float label_smoothing = 0;
    MixedLabels mixed{};  ///< [n] each, or null: not mixed
};
/// Returns the bytes of workspace for n rows.
size_t loss_workspace(int n);
/// Writes stats->loss_sum, correct and top5. Two kernels.
void loss_forward(const LossArgs&, BatchStats* stats, void* workspace, cudaStream_t);
/// Computes dx, the gradient of the mean over global_batch, times *loss_scale (on the device)
/// unless that is null.
void loss_backward(const LossArgs&, const Tensor& dx, int64_t global_batch, const float* loss_scale, cudaStream_t);

// ---- linear.cu ----------------------------------------------------------------------------------
/// Returns the bytes of workspace for dy.
size_t bias_gradient_workspace(const Shape& dy);
/// Computes db [channels], the sum over the rows (pixels) of dy. Two kernels.
void bias_gradient(const Tensor& dy, int channels, float* db, void* workspace, cudaStream_t);

// ---- bias.cu ------------------------------------------------------------------------------------
/// Computes to = from + bias [real channels]. `from` and `to` have the same pixels and real
/// channels, and `to` gets zero padding. Their types may differ; they may be the same tensor.
void add_bias(const Tensor& from, const float* bias, const Tensor& to, cudaStream_t);

// ---- cast.cu ------------------------------------------------------------------------------------
/// Copies dense f32 [rows, channels] to a tensor of any activation type with at least as many
/// channels and pixels. Further channels and rows become zero. A convolution weight [out, k, k, in]
/// has out * k * k rows.
void pad(const float* from, int64_t rows, int channels, const Tensor& to, cudaStream_t);
/// The first `rows` and `channels` of a tensor, and the dense f32 matrix that receives them.
struct Cropped {
    Tensor from;
    int64_t rows;
    int channels;
    float* to;
};
/// Copies tensors to dense f32; pad() reversed, for gradients. The list is on the host. One kernel
/// per 100 tensors of equal type.
void crop(const std::vector<Cropped>&, cudaStream_t);
void crop(const Tensor& from, int64_t rows, int channels, float* to, cudaStream_t);

// ---- optimizer.cu, loss_scale.cu ----------------------------------------------------------------
/// A parameter in the arena, and its padded copy in the precision of the convolutions. A table of
/// segments is on the device, ascending and without overlap. Elements between segments (the batch
/// sums) stay untouched.
struct Segment {
    int64_t begin, end;  ///< elements of the arena; multiples of 4
    float weight_decay;
    float learning_rate = 1;    ///< factor on the schedule's learning rate
    int64_t steps = INT64_MAX;  ///< updated while Counters::step is below this, constant afterwards
    void* copy = nullptr;       ///< null: none
    DType copy_type = DType::f32;
    /// number of real elements from `begin`, [count / channels, channels]; arena padding follows
    int64_t count = 0;
    int channels = 1, stored = 1;  ///< channels in the arena and in the copy; the copy's padding stays untouched
    const float *direction = nullptr, *rescale = nullptr;  ///< for a MuonMatrix: w = *rescale * w - rate * direction
};

/// State of the loss scale, on the device. The update is skipped if the loss or gradients are not
/// finite. In f16, gradients are multiplied by `scale`.
struct LossScale {
    float scale = 65536;
    int32_t finite = 1;      ///< cleared by check_finite(), set again by adjust_loss_scale()
    int32_t good_steps = 0;  ///< since the scale last changed
    int32_t skipped = 0;     ///< updates skipped so far
};
/// Clears state->finite if a gradient is infinite or NaN.
void check_finite(const float* gradients, size_t count, LossScale* state, cudaStream_t);
/// Decides whether to skip the update; called after check_finite(). The update is also skipped if
/// the loss is not finite, or if `latch` is set and the previous update was skipped. Sets
/// stats->skipped, except for an overflow that a lower scale can cure (`scaled`).
void decide_update(LossScale* state, BatchStats* stats, bool latch, bool scaled, cudaStream_t);
/// Adjusts the scale after the update. It halves the scale after a skipped update, and doubles it
/// after `growth_interval` good ones. An interval of 0 never changes it.
void adjust_loss_scale(LossScale* state, int growth_interval, cudaStream_t);

/// Performs one optimizer step over all segments and their copies. u.segments is not read.
/// loss_scale may be null. One kernel.
void update(const Update& u, const Segment* segments, int segment_count, const LossScale* loss_scale, cudaStream_t);

/// Averages with slow weights: slow += (1 - decay) * (w - slow), then w = slow, in copies too.
/// `decays` is indexed by completed steps; the current one is counters->step + 1. There is no
/// update if the decay is negative, or if `stats` is given and says `skipped`. `slow` has w's
/// offsets. Segments of running statistics have no copies.
void look_ahead(float* w, float* slow, const Segment* segments, int segment_count, size_t count, const float* decays,
                const Counters* counters, const BatchStats* stats, cudaStream_t);

// ---- muon.cu ------------------------------------------------------------------------------------
/// A matrix [rows, columns] that Muon updates, at `begin` of the arenas, and scratch memory for it.
struct MuonMatrix {
    static constexpr int parts = 64;  ///< number of partial sums over a matrix
    int64_t begin, steps;             ///< steps as in Segment
    int rows, columns;
    /// [rows * columns, rounded up to 16] each; orthogonalise() writes its result to direction()
    float* x[2];
    float *gram, *polynomial;  ///< [n, n], where n is the smaller of rows and columns
    double* squares;           ///< [parts][2]
    float* rescale;            ///< factor on the weights: sqrt(rows) / norm of the weights
    const float* direction() const { return x[muon_iterations % 2]; }
};
/// Writes the directions of all matrices for the following update, and advances velocities
/// (u.state). If the step is not finite, velocities stay, and the directions are not valid.
/// `matrices` is on the device; `host` is a copy of it on the host. u.segments is not read.
/// 2 + 3 * muon_iterations kernels.
void orthogonalise(const Update& u, const MuonMatrix* matrices, const std::vector<MuonMatrix>& host,
                   const LossScale* loss_scale, cudaStream_t);

// ---- exact_sums.cu ------------------------------------------------------------------------------
/// Implements Backend::accumulate_exact for a table of ranges on the device. Bounds of ranges are
/// multiples of 4. The arena of integers must begin at a multiple of 32 bytes, that of gradients at
/// a multiple of 16. One kernel.
void accumulate_exact(const ExactSums&, const float* gradients, const ExactRange* ranges, int count, cudaStream_t);
/// Implements Backend::finalize_exact after the all-reduces, for all ranges of the arena. Two
/// kernels.
void finalize_exact(const ExactSums&, const ExactRange* ranges, int count, float* gradients, cudaStream_t);

// ---- checksum.cu --------------------------------------------------------------------------------
/// Implements Backend::checksum. One kernel.
void checksum(const Checksum&, cudaStream_t);

// ---- record.cu ----------------------------------------------------------------------------------
/// Times of the running step, in nanoseconds of the device's clock.
struct StepTimes {
    uint64_t started = 0, gathered = 0;
    uint64_t wait_began = 0, wait_ended = 0;  ///< the compute stream's wait for all-reduces
};
/// Writes the current time.
void mark(uint64_t* when, cudaStream_t);
/// Implements Backend::request. requests [3] are stop, checkpoint and snapshot; null: none. They
/// are in pinned host memory that the device can read (the integers of Requests).
void request(const int* requests, BatchStats* stats, BatchStats* own, cudaStream_t);
/// Implements Backend::record.
void record(const Record&, const StepTimes*, cudaStream_t);
/// Implements Backend::accumulate.
void accumulate(const BatchStats*, EvalTotals*, int64_t images, Counters*, int64_t global_batch, cudaStream_t);

}  // namespace convoy::kernels
