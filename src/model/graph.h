// A model is data: values, parameters and a list of ops in forward order. Shapes have no batch
// dimension; a program adds it. Backward, fusion, memory and gradient buckets are derived from this
// list alone.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "base/tensor.h"

namespace convoy {

using ValueId = int;
using ParamId = int;
constexpr int none = -1;

enum class Activation { identity, relu, gelu };

/// Initial value of a parameter: constant(a), normal(0, a) or uniform(-a, a). The kinds `identity`
/// and `whitening` are for a convolution [out, kh, kw, in].
struct Init {
    enum Kind {
        constant,
        normal,
        uniform,
        /// uniform(-a, a), but the first `in` filters each copy their channel (Dirac's delta in the
        /// middle)
        identity,
        whitening,  ///< computed from training images (model/whitening.h) when training begins; zero until then
    } kind;
    float a;
};

/// Groups of parameters. A recipe may set separate optimizer rules for each group.
enum class ParamGroup : uint8_t { other, filter, norm_shift, whitening_bias, linear };

struct Value {
    std::string name;
    int h, w, c;
    DType dtype = DType::f32;
    int padding = 0;  ///< zero channels stored after the c real ones
    Shape batched(int n) const { return {n, h, w, c + padding}; }
};

struct Param {
    std::string name;
    Shape shape;  ///< convolution [out, kh, kw, in], linear [out, 1, 1, in], vectors [1, 1, 1, c]
    Init init;
    bool trained;         ///< false: a running statistic
    bool is_weight;       ///< a convolution or linear weight; "decay weights only" decays these
    bool frozen = false;  ///< keeps its initial value: no gradient, no optimizer state
    ParamGroup group = ParamGroup::other;

    bool has_gradient() const { return trained && !frozen; }
};

// Ops: y is the output. Every parameter belongs to exactly one op, so a parameter's gradient is
// written once per step.
struct Conv {  // x [h, w, in] -> y [h', w', out]
    ValueId x, y;
    ParamId weight, bias;
    int kernel, stride, pad;
};
struct BatchNorm {  // y = act(normalise(x) + residual)
    ValueId x, y;
    ParamId scale, bias, mean, var;
    float epsilon, momentum;  ///< `momentum`: weight of a new batch in the running statistics
    ValueId residual = none;  ///< may have fewer channels than y: the missing ones count as zero
    Activation act = Activation::identity;
    /// true: training also normalises with the running statistics, and does not change them. Scale
    /// and bias must be frozen.
    bool fixed = false;
};
struct Relu {
    ValueId x, y;
};
struct Gelu {  // the exact one, with erf
    ValueId x, y;
};
struct Scale {  // y = factor * x
    ValueId x, y;
    float factor;
};
struct Add {  // y = a + b
    ValueId a, b, y;
};
struct Pool {  // averages count only pixels inside the image; a global pool has kernel = h
    enum Kind { max, average } kind;
    ValueId x, y;
    int kernel, stride, pad;
};
struct PadShortcut {  // y = x, or its 2x2 average if stride is 2, with zero channels appended
    ValueId x, y;
    int stride;
};
struct Linear {  // x flattened in h, w, c order -> y [1, 1, out]; bias may be none
    ValueId x, y;
    ParamId weight, bias;
};
struct Dropout {
    ValueId x, y;
    float p;              ///< probability of zero; kept elements are scaled by 1 / (1 - p)
    bool whole_channels;  ///< drop whole feature maps of a sample (dropout2d)
    int stream;           ///< random stream: 0 for the model's first dropout, 1 for the second, …
};
struct SoftmaxXent {  // loss = mean over the global batch of the cross-entropy of softmax(x) with the smoothed label
    ValueId x;
    float label_smoothing;
    bool sum = false;  ///< true: gradients of the sum over the global batch; the reported loss stays the mean
};

using Op = std::variant<Conv, BatchNorm, Relu, Gelu, Scale, Add, Pool, PadShortcut, Linear, Dropout, SoftmaxXent>;
/// Expands to X(op) for each op type; backends declare their functions with it.
#define CONVOY_EACH_OP(X) \
    X(Conv) X(BatchNorm) X(Relu) X(Gelu) X(Scale) X(Add) X(Pool) X(PadShortcut) X(Linear) X(Dropout) X(SoftmaxXent)

struct Graph {
    std::string model;
    int classes = 0;
    ValueId input = none;
    std::vector<Value> values;
    std::vector<Param> params;
    std::vector<Op> ops;

    /// Returns the number of elements of all parameters, including frozen ones, without running
    /// statistics. Papers report this count.
    size_t parameter_count() const;
    /// Returns the number of elements of the parameters that have a gradient.
    size_t gradient_count() const;
    /// Returns the FLOPs (multiply-adds times two) of convolutions and linear layers for one image,
    /// forward only.
    double flops_per_image() const;
};

std::vector<ValueId> inputs_of(const Op&);
ValueId output_of(const Op&);  ///< none for the loss
/// Returns the number of ops that read each value, by ValueId.
std::vector<int> readers_of(const Graph&);
/// Returns the op that writes each value, by ValueId; none for the images.
std::vector<int> writers_of(const Graph&);
std::vector<ParamId> params_of(const Op&);
/// Returns the values that an op's backward reads, besides the gradient of its output.
std::vector<ValueId> saved_of(const Op&);
const char* name_of(const Op&);

/// The gradients of values that backward writes, and where it adds instead of overwriting.
struct GradientFlow {
    std::vector<bool> wanted;                   ///< by ValueId: some parameter's gradient depends on this gradient
    std::vector<std::vector<bool>> accumulate;  ///< [op][ValueId]: a later op has already written this gradient

    /// Returns true if the backward of an op has anything to write.
    bool reaches(const Op&) const;
};
GradientFlow gradient_flow(const Graph&);

/// Builds a graph op by op, infers shapes, and names parameters "<name>.weight" and so on.
class GraphBuilder {
public:
    GraphBuilder(std::string model, int h, int w, int c, int classes);

    ValueId input() const { return graph_.input; }
    const Value& value(ValueId id) const { return graph_.values[id]; }

    ValueId conv(const std::string& name, ValueId x, int out, int kernel, int stride, int pad, Init init,
                 bool bias = false);
    /// Adds a convolution of stride 1 without padding. It has twice as many filters as a patch has
    /// elements; they are computed from training images and frozen. The bias is trained.
    ValueId whitening_conv(const std::string& name, ValueId x, int kernel);
    /// `scaled` false: the scale is frozen at 1.
    ValueId batch_norm(const std::string& name, ValueId x, float epsilon = 1e-5f, float momentum = 0.1f,
                       bool scaled = true);
    ValueId relu(ValueId x);
    ValueId gelu(ValueId x);
    ValueId scale(ValueId x, float factor);
    ValueId add(ValueId a, ValueId b);
    ValueId max_pool(ValueId x, int kernel, int stride, int pad = 0);
    ValueId global_average_pool(ValueId x);
    ValueId pad_shortcut(ValueId x, int channels, int stride);
    /// Adds a linear layer with initial weights uniform(-bound, bound); 0: PyTorch's default bound.
    ValueId linear(const std::string& name, ValueId x, int out, bool bias = true, float bound = 0);
    ValueId dropout(ValueId x, float p, bool whole_channels = false);
    Graph finish(ValueId logits, float label_smoothing, bool sum_loss = false);

private:
    ValueId add_value(const std::string& name, int h, int w, int c);
    ParamId add_param(const std::string& name, Shape shape, Init init, bool trained = true, bool is_weight = false);
    Graph graph_;
    int dropouts_ = 0;
};

/// Returns Kaiming's normal initialisation of a convolution before ReLUs, by fan-out.
Init kaiming_fan_out(int kernel, int out);
/// Returns PyTorch's default for a convolution, with the identity in the first `in` filters.
Init identity_fan_in(int kernel, int in);

/// Merges BatchNorm -> [+ residual] -> [ReLU] or BatchNorm -> GELU into single ops. If that
/// residual is a stride-1 PadShortcut, it is merged too. The result computes the same function with
/// fewer passes over memory.
Graph fuse(const Graph&);

}  // namespace convoy
