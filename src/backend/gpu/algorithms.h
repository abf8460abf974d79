// Chooses how each op of a program runs on a GPU: by a cuDNN plan or one of our kernels, alone or
// fused with a neighbour. It goes over the graph forward, then backward, and compares measured
// times. Nothing here needs a GPU, so dry runs choose too, and tests choose from made-up times.
//
// A batch norm runs by the fastest of four algorithms. These are: cuDNN's own plan (bf16, f16); our
// kernels; our kernels with sums that the convolution before it writes; or, in f16, inside the
// convolution after it, which normalises its input while loading it. Its gradient runs by cuDNN's
// plan, by our kernels, or by our kernels with sums from the data gradient of the convolution after
// it. Where our kernels run without such sums, they can also compute a max-pool just before the
// norm. Work that could not be timed never wins.
//
// Example: conv1, norm1 with ReLU, conv2, norm2 in f16, for 4 images of 8x8 with 64 channels. The
// microseconds are made up. Both convolutions take 10 forward, or 12 with sums. Both norms take 6
// by cuDNN's plan, or 5 by our kernels, which normalise in 2.9 if they get the sums.
//
//   forward of norm1    separate: 10 + 5 = 15; sums in conv1: 12 + 2.9 = 14.9, selected
//   forward of norm2    the same with conv2. Then norm1 may also move into conv2:
//                       not moved: conv2 12 + its weight gradient 8 + norm1 2.9 = 22.9
//                       moved: 13 + 9 + 0.8 (the norm's statistics alone) = 22.8, selected
//   backward of norm1   separate: data gradient of conv2 8 + the plan 5 = 13
//                       sums in that data gradient: 9 + 3.9 = 12.9, selected
//   backward of norm2   the plan 5, our kernels 5.5: the plan is selected
//
// conv2 now reads the output of conv1. So the output of norm1 has no memory (writes_value is
// false), which saves 4 * 8 * 8 * 64 * 2 = 32,768 bytes. Instead, 256 more bytes are kept for
// backward: a scale and a bias in f16 for 64 channels. In backward, conv2's two gradients are
// expected to occupy 5 and 4 multiprocessors. An H100 has 132, so they run at the same time.
//
// Only our kernels do exact f32, GELU, frozen scales, narrower residuals, gradients that must be
// added, and statistics over all ranks.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda_queries.h"
#include "backend/gpu/plan_spec.h"
#include "ops/algorithms.h"

namespace convoy::cuda {

/// Work of our kernels that competes with a cuDNN plan.
struct KernelSpec {
    enum Kind {
        norm,               ///< batch_norm_forward
        normalise,          ///< the same, given the sums
        statistics,         ///< only mean, deviation, scale and bias, given the sums
        norm_gradient,      ///< batch_norm_backward
        gradient_of_sums,   ///< batch_norm_backward_of_sums
        residual_gradient,  ///< the residual's, if a plan writes the norm's other gradients
        addition            ///< adding a data gradient, after its plan
    } kind = norm;
    Tensor x{};  ///< without data
    std::optional<Tensor> residual{};
    Activation act = Activation::identity;
    bool accumulate_x = false, accumulate_residual = false;

    /// Returns a unique line: the work's name in the cache of times.
    std::string key() const;
};

constexpr float missing = std::numeric_limits<float>::infinity();  ///< cuDNN has no engine
constexpr float untimed = std::numeric_limits<float>::max();       ///< could not be measured

/// Functions that return the microseconds of work on this device, or `untimed` or `missing`.
struct Timing {
    std::function<float(const PlanSpec&)> plan;
    std::function<float(const KernelSpec&)> kernels;
};

/// Options that influence the selection.
struct AlgorithmOptions {
    Precision precision = Precision::f32;
    NormBy norm_by{};
    bool synchronised = false;     ///< batch statistics are over all ranks
    int norm_multiprocessors = 0;  ///< see PlanSpec::multiprocessors
    int multiprocessors = 0;       ///< shared by the two gradients of an op; 0: they run one after the other
};

/// The plans of a convolution or a linear layer.
struct GemmAlgorithm {
    std::optional<PlanSpec> forward{};          ///< empty: this rank has no samples
    std::optional<PlanSpec> weight_gradient{};  ///< empty: frozen
    /// Empty: not wanted. If the gradient must be added and this spec does not add, an addition
    /// follows.
    std::optional<PlanSpec> data_gradient{};
    int norm = none;  ///< the batch norm that writes x and is partly done by these plans (normalise, statistics)
    bool side_by_side = false;  ///< both gradients run at the same time, each in its own workspace
};
struct NormAlgorithm {
    enum By {
        kernels,
        plan,          ///< `forward`, `gradient`
        sums,          ///< our kernels, with sums that a convolution's plan writes
        reader,        ///< forward only: the convolution that reads y normalises
        synchronised,  ///< our kernels, with all-reduced sums
        fixed          ///< our kernels, with the running statistics (BatchNorm::fixed)
    } forward_by = kernels,
      gradient_by = kernels;
    PlanSpec forward{}, gradient{};
    int pool = none, pool_gradient = none;  ///< the max-pool whose forward or gradient these kernels compute too
    bool pool_gradient_adds = false;        ///< the pool's gradient is added to what a later op wrote
};
/// The parts of a max-pool that the batch norm after it computes too.
struct PoolAlgorithm {
    bool by_norm = false, gradient_by_norm = false;
};
/// How an op runs. Members that do not apply to the op are empty.
struct OpAlgorithm {
    GemmAlgorithm gemm{};
    NormAlgorithm norm{};
    PoolAlgorithm pool{};
};

struct GpuAlgorithms final : Algorithms {
    std::vector<OpAlgorithm> per_op;  ///< per op
    /// Per op: every plan whose time was requested, and every plan that is needed whatever its
    /// time.
    std::vector<std::vector<PlanSpec>> considered;
    std::set<std::string> notes;  ///< for people: replacements for what cuDNN lacks

    /// Returns the plans that the launches run, each once.
    std::vector<PlanSpec> plans() const;
};

GpuAlgorithms select_algorithms(const ProgramShape&, const AlgorithmOptions&, const Timing&);
/// Completes a selection: decides which ops compute both gradients side by side.
GpuAlgorithms with_branches(GpuAlgorithms, int multiprocessors);
/// Selects without times: as options.norm_by says, as if cuDNN had every plan. Where times would
/// decide, batch norms use our kernels. Dry runs without a GPU call this.
GpuAlgorithms select_unmeasured(const ProgramShape&, AlgorithmOptions);

}  // namespace convoy::cuda
