// How each op of a program runs on a GPU: by which of cuDNN's plans, by which of our kernels, alone
// or fused with a neighbour. Decided on the graph, forward and then backward, from measured times;
// nothing here needs a GPU, so a dry run decides too, and tests decide from times that they make
// up.
//
// A batch norm runs in the fastest of four ways: cuDNN's own plan (bf16, f16), our kernels, with
// sums that the convolution before it writes, or, in f16, inside the convolution after it, which
// normalises its input as it loads it. Its gradient: cuDNN's plan, our kernels, or with sums that
// the data gradient of the convolution after it writes. Our kernels also do a max-pool before it.
// What could not be timed wins nothing.
// Only they do exact f32, GELU, frozen scales, narrower residuals, gradients that add, and
// statistics over all ranks.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda_queries.h"
#include "backend/gpu/plan_spec.h"
#include "backend/ways.h"

namespace convoy::cuda {

/// Work of our kernels that competes with a plan.
struct KernelSpec {
    enum Kind {
        norm,               ///< batch_norm_forward
        normalise,          ///< the same from sums that are there
        statistics,         ///< only mean, deviation, scale and bias from sums that are there
        norm_gradient,      ///< batch_norm_backward
        gradient_of_sums,   ///< batch_norm_backward_of_sums
        residual_gradient,  ///< of a batch norm whose other gradients a plan writes
        addition            ///< of a data gradient, after the plan
    } kind = norm;
    Tensor x{};  ///< without data
    std::optional<Tensor> residual{};
    Activation act = Activation::identity;
    bool accumulate_x = false, accumulate_residual = false;

    /// One line that tells any two apart: the work's name in the cache of times.
    std::string key() const;
};

constexpr float missing = std::numeric_limits<float>::infinity();  ///< cuDNN has no engine
constexpr float untimed = std::numeric_limits<float>::max();       ///< it could not be measured

/// Microseconds that work takes on the device at hand, `untimed` or `missing`.
struct Timing {
    std::function<float(const PlanSpec&)> plan;
    std::function<float(const KernelSpec&)> kernels;
};

/// What decides besides the outline.
struct WayOptions {
    Precision precision = Precision::f32;
    NormBy norm_by{};
    bool synchronised = false;     ///< batch statistics are of all ranks
    int norm_multiprocessors = 0;  ///< as PlanSpec::multiprocessors
    int multiprocessors = 0;       ///< that two gradients of a product may share; 0: they run one after the other
};

/// Of a convolution or a linear layer.
struct ProductWay {
    std::optional<PlanSpec> forward{};          ///< nothing: this rank has no samples
    std::optional<PlanSpec> weight_gradient{};  ///< nothing: frozen
    /// Nothing: not wanted. Where it is to add and the spec does not, an addition follows.
    std::optional<PlanSpec> data_gradient{};
    int norm = none;  ///< the batch norm that writes x and of which these plans do a part (normalise, statistics)
    bool side_by_side = false;  ///< both gradients run at the same time, each in a workspace of its own
};
struct NormWay {
    enum By {
        kernels,
        plan,         ///< `forward`, `gradient`
        sums,         ///< kernels, with sums that a convolution's plan writes
        reader,       ///< forward only: the convolution that reads y normalises
        synchronised  ///< kernels, with sums over ranks
    } forward_by = kernels,
      gradient_by = kernels;
    PlanSpec forward{}, gradient{};
    int pool = none, pool_gradient = none;  ///< the max-pool whose forward, whose gradient these kernels do too
    bool pool_gradient_adds = false;        ///< to what a later op wrote
};
/// Of a max-pool: whether the batch norm after it does it.
struct PoolWay {
    bool by_norm = false, gradient_by_norm = false;
};
/// How an op runs. Parts that are not its own are empty.
struct Way {
    ProductWay product{};
    NormWay norm{};
    PoolWay pool{};
};

struct GpuWays final : Ways {
    std::vector<Way> ways;  ///< by op
    /// Every plan whose time was asked for, or which is needed whatever it takes; by op.
    std::vector<std::vector<PlanSpec>> considered;
    std::set<std::string> notes;  ///< what runs instead of what cuDNN does not have, for people

    /// The plans that the steps run, each once.
    std::vector<PlanSpec> plans() const;
};

GpuWays decide(const Outline&, const WayOptions&, const Timing&);
/// The last part of it: which products' gradients run side by side.
GpuWays with_branches(GpuWays, int multiprocessors);
/// As options.norm_by says, as if cuDNN had every plan; where times decide, by our kernels alone:
/// what a dry run without a GPU plans with.
GpuWays decide_unmeasured(const Outline&, WayOptions);

}  // namespace convoy::cuda
