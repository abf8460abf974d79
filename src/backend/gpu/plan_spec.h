// Requests to cuDNN as plain data, one spec per operation. cuDNN's graph is built from a spec. Its
// key names the plan in the cache and in the table of `convoy info --plans`. No GPU is needed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/graph.h"
#include "model/precision.h"

namespace convoy::cuda {

/// The operands of all plans; a plan uses those of its kind (operands_of).
enum class Slot : int64_t {
    x = 1,
    weight,
    y,
    dy,
    dx,
    dweight,
    residual,
    scale,
    bias,
    mean,
    invstd,
    running_mean,
    running_var,
    next_mean,
    next_var,
    dscale,
    dbias,
    sum,
    squares,
    // A batch norm's dx is dy_factor * dy + x_factor * x + offset.
    dy_factor,
    x_factor,
    offset
};

/// Returns "running_mean" for Slot::running_mean.
const char* name_of(Slot);

struct PlanSpec {
    enum Kind {
        /// y = x * weight. `statistics`: also writes sum(y) and sum(y^2) per channel, for a batch
        /// norm that reads y
        conv,
        /// dx = dy * weight. `add`: adds slot residual. `statistics`: x came from a batch norm with
        /// ReLU, so dx is masked by that ReLU, and the norm's dscale and dbias are written too
        conv_data_gradient,
        conv_weight_gradient,  ///< dweight = dy * x
        /// y = act(batch norm(x) + residual), with the batch's statistics. `add`: there is a
        /// residual
        norm,
        norm_gradient,  ///< `relu`: masks dy by the norm's ReLU, which is recomputed from x
    } kind = conv;
    Shape x{}, y{};  ///< stored shapes, padding included
    int kernel = 1, stride = 1, pad = 0;
    DType type = DType::f32;  ///< of operands; vectors of batch norms are f32 unless `normalise`
    bool exact = false;       ///< f32 GEMMs without tensor cores
    bool add = false, relu = false, statistics = false;
    /// conv with `statistics`, conv_weight_gradient: reads relu(scale * x + bias), per channel, in
    /// place of x
    bool normalise = false;
    float epsilon = 0, momentum = 0;
    /// The largest number of multiprocessors that a batch norm's gradient may use; 0: all. Its
    /// blocks wait for one another, while all-reduces run on the other multiprocessors.
    int multiprocessors = 0;

    /// Returns the operation, type and fusions, without sizes: "norm bf16 add relu".
    std::string family() const;
    /// Returns a unique line: the plan's name in the cache and in tables.
    std::string key() const;
    bool is_norm() const { return kind == norm || kind == norm_gradient; }
    /// Returns multiply-adds times two; 0 for batch norms.
    double flops() const;
    /// Estimates the thread blocks that each occupy a multiprocessor for some microseconds. A block
    /// computes a tile of 128 x 128 outputs, and at most 512 products for each output. On an H100's
    /// tensor cores a block takes at least 2 us, about as long as a launch. It is an estimate,
    /// because cuDNN's engines have tiles of many sizes.
    double blocks() const;
};

/// Returns the operands of a plan.
std::vector<Slot> operands_of(const PlanSpec&);
/// Returns the bytes of an operand.
size_t operand_bytes(const PlanSpec&, Slot);

/// Rounds n up to a multiple that tensor cores take.
constexpr int padded_channels(int n) {
    return (n + tensor_core_multiple - 1) / tensor_core_multiple * tensor_core_multiple;
}

/// The shape of a parameter's copy in the precision of the convolutions. Each of its `rows` has
/// `channels` numbers and zeros up to `stored`. Rows of zeros follow, up to `stored_rows`.
struct CopyShape {
    int64_t rows, stored_rows;
    int channels, stored;
    DType type;
    /// Returns true if the f32 master can be used instead of a copy.
    bool is_master() const { return type == DType::f32 && rows == stored_rows && channels == stored; }
    size_t bytes() const { return size_t(stored_rows) * size_t(stored) * size_of(type); }
    bool operator==(const CopyShape&) const = default;
};

/// Builds the spec from shapes alone; x and y are stored shapes.
PlanSpec conv_spec(PlanSpec::Kind, const Conv&, const Shape& x, const Shape& y, DType, Precision);
/// Builds the spec of a linear layer: a 1x1 convolution on one pixel per sample.
PlanSpec linear_spec(PlanSpec::Kind, const Shape& x, int out, DType, Precision);
PlanSpec norm_spec(PlanSpec::Kind, const BatchNorm&, const Shape& x, DType);
/// Returns true if the convolution before this norm can also write the sums that the norm needs.
/// cuDNN has engines for that in f16 and bf16.
bool sums_by_conv(const BatchNorm&, DType);
/// Returns true if this norm can be fused into the convolution that reads it (f16, ReLU, no
/// residual). That convolution normalises its input while loading it, and its data gradient writes
/// the sums for the norm's gradient. The caller checks that it is the only reader.
bool norm_in_conv(const BatchNorm&, DType);
/// Returns true if cuDNN's fused batch norm is a candidate. In f32 and tf32 our exact kernels are
/// used. A residual must have as many real and stored channels as y. Otherwise cuDNN would write
/// its gradient into the padding.
bool norm_by_cudnn(const BatchNorm&, const Tensor& x, const Tensor* residual, Precision);

CopyShape weight_copy(const Shape& weight, const Shape& x, const Shape& y, DType);
/// Returns the copy's shape for a linear layer that reads x [n, h, w, c]. It has a row for each
/// output and pixel of x.
CopyShape linear_copy(int out, const Value& x, DType);

}  // namespace convoy::cuda
