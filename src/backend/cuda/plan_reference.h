// Results that a plan must compute, in double precision on the host. Elements of the operands are
// known functions of their index. Only sampled elements are computed, because a convolution of a
// whole batch would take minutes.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "backend/gpu/plan_spec.h"

namespace convoy::cuda {

/// Returns the type of an operand's elements.
DType operand_type(const PlanSpec&, Slot);

class PlanReference {
public:
    explicit PlanReference(const PlanSpec&);

    static constexpr size_t period = 65521;  ///< of every tensor's values; prime, so that no two rows are alike
    /// Returns an element of an input. It is exact in every type.
    float input(Slot, size_t i) const;

    /// Returns the outputs that are compared.
    std::vector<Slot> outputs() const;
    /// Returns an element of an output that the plan wrote.
    using Output = std::function<float(Slot, size_t)>;
    struct Error {
        double relative = 0;  ///< the largest difference, divided by the output's largest expected magnitude
        Slot slot = Slot::y;  ///< the output that has it
    };
    /// Compares samples of all outputs. If a convolution's plan also writes sums, they must be the
    /// sums of the output that it wrote.
    Error error(const Output&) const;

private:
    struct Moments {
        double mean, variance;
    };
    struct Sums {
        double dscale, dbias;
    };
    std::vector<size_t> samples(Slot) const;
    /// Returns NaN where rounding decides whether a ReLU cuts the element off.
    double expected(Slot, size_t i, const Output&) const;
    double source(size_t i) const;
    double conv(size_t i) const;
    double data_gradient(size_t i) const;
    double weight_gradient(size_t i) const;
    double norm(Slot, size_t i) const;
    double norm_gradient(Slot, size_t i) const;
    double normalised(size_t i) const;
    /// Returns g if the ReLU of the batch norm that reads x[i] lets it pass, 0 if not, and NaN if
    /// rounding decides.
    double masked(double g, size_t i) const;
    double sum(size_t channel, const std::function<double(size_t)>& of) const;
    const Moments& moments(size_t channel) const;
    const Sums& sums(size_t channel) const;

    const PlanSpec s_;
    const size_t channels_;
    std::vector<float> block_, mean_, invstd_;
    mutable std::map<size_t, Moments> moments_;  // by channel, computed on first use
    mutable std::map<size_t, Sums> sums_;
};

}  // namespace convoy::cuda
