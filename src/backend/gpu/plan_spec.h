// What is asked of cuDNN, as plain data: one spec an operation, from which its graph is built, its
// plan is looked up in the cache, and the table of `convoy info --plans` is made, on machines
// without a GPU too.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/graph.h"
#include "model/precision.h"

namespace convoy::cuda {

/// The operands of all plans. A plan names those it reads and writes.
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

struct PlanSpec {
    enum Kind {
        /// y = x * weight; `statistics`: also writes sum(y) and sum(y^2) by channel, for a batch
        /// norm that consumes y
        conv,
        /// dx = dy * weight; `add`: adds slot residual; `statistics`: x came from a batch norm with
        /// ReLU, so masks dx by that ReLU and writes the norm's dscale and dbias
        conv_data_gradient,
        conv_weight_gradient,  ///< dweight = dy * x
        /// y = act(batch norm(x) + residual), statistics of the batch; `add`: there is a residual
        norm,
        norm_gradient,  ///< `relu`: masks dy by the norm's ReLU, recomputed from x
    } kind = conv;
    Shape x{}, y{};  ///< as stored
    int kernel = 1, stride = 1, pad = 0;
    DType type = DType::f32;  ///< of everything but a batch norm's vectors; with `normalise` of those too
    bool exact = false;       ///< f32 products without tensor cores
    bool add = false, relu = false, statistics = false;
    /// conv with `statistics`, conv_weight_gradient: relu(scale * x + bias), by channel, takes the
    /// place of x
    bool normalise = false;
    float epsilon = 0, momentum = 0;
    /// The plan of a batch norm's gradient takes no more: its blocks wait for one another, and sums
    /// over ranks run beside them; 0: all of the device.
    int multiprocessors = 0;

    /// Operation, type and fusions, without sizes: "norm bf16 add relu".
    std::string family() const;
    /// One line that tells any two apart: the plan's name in the cache and in tables.
    std::string key() const;
    bool is_norm() const { return kind == norm || kind == norm_gradient; }
    /// Multiply-adds times two; 0 for batch norms.
    double flops() const;
    /// Thread blocks of a product that keep a multiprocessor each for some microseconds: tiles of
    /// 128 x 128 outputs, cut so that none adds up more than 512 products an output. On tensor
    /// cores of an H100 that is 2 us at best, about what a launch takes. An estimate: cuDNN's
    /// engines have tiles of many sizes.
    double blocks() const;
};

/// The operands of a kind of plan.
std::vector<Slot> operands_of(const PlanSpec&);
/// Bytes of one of them.
size_t operand_bytes(const PlanSpec&, Slot);

/// n rounded up to what tensor cores take.
constexpr int padded_channels(int n) {
    return (n + tensor_core_multiple - 1) / tensor_core_multiple * tensor_core_multiple;
}

/// A parameter's copy in the precision of the convolutions: rows of `channels` real numbers in rows
/// of `stored`, then zero rows up to `stored_rows`.
struct CopyShape {
    int64_t rows, stored_rows;
    int channels, stored;
    DType type;
    /// The master serves as it is.
    bool is_master() const { return type == DType::f32 && rows == stored_rows && channels == stored; }
    size_t bytes() const { return size_t(stored_rows) * size_t(stored) * size_of(type); }
    bool operator==(const CopyShape&) const = default;
};

/// The parts that depend only on shapes; x and y are stored shapes.
PlanSpec conv_spec(PlanSpec::Kind, const Conv&, const Shape& x, const Shape& y, DType, Precision);
/// A linear layer is a 1x1 convolution of one pixel a sample.
PlanSpec linear_spec(PlanSpec::Kind, const Shape& x, int out, DType, Precision);
PlanSpec norm_spec(PlanSpec::Kind, const BatchNorm&, const Shape& x, DType);
/// True if the convolution that feeds this norm can also write the sums it needs: cuDNN has engines
/// for that in f16 and bf16.
bool sums_by_conv(const BatchNorm&, DType);
/// True if this norm can fuse into the convolution that consumes it (f16, ReLU, no residual): that
/// normalises its input as it loads it, and its data gradient writes the sums that the norm's
/// gradient needs. The caller checks it is the only consumer.
bool norm_in_conv(const BatchNorm&, DType);
/// Whether cuDNN's fused batch norm is a candidate. f32 keeps the exact kernels. A residual must
/// have y's shape, stored and real: cuDNN would fill the padding of a narrower one.
bool norm_by_cudnn(const BatchNorm&, const Tensor& x, const Tensor* residual, Precision);

CopyShape weight_copy(const Shape& weight, const Shape& x, const Shape& y, DType);
/// For a linear layer that reads x [n, h, w, c]: its rows are the pixels of each output.
CopyShape linear_copy(int out, const Value& x, DType);

}  // namespace convoy::cuda
