// Gradients on every device. For a loss <dy, f(x)> and a direction u, <dx, u> must be the central
// difference of the scalar reference along u. If f is linear, that is the adjoint identity, exact
// for any step.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

double dot(const Doubles& a, const Floats& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * double(b[i]);
    return sum;
}

class OpGradients : public testing::TestWithParam<OnDevice> {
protected:
    const OpCase& c_ = GetParam().op_case();
    Backend* const backend_ = &GetParam().backend();
    const ValueId y_ = output_of(c_.op());
    Floats dy_ =
        y_ == none ? Floats{} : rounded(c_.type(), normals(c_.graph.values[y_].batched(c_.batch).count(), 300));

    /// Runs forward and backward after `prepare` has changed the pair.
    template <class Prepare> Pair ran(Prepare prepare) {
        Pair pair(*backend_, c_, c_.setting);
        if (y_ != none) pair.backend.set_gradient(y_, dy_);
        prepare(pair.backend);
        pair.backend.forward();
        pair.backend.backward();
        return pair;
    }
    Pair ran() {
        return ran([](OpHarness&) {});
    }

    double loss(Reference reference) const {
        reference.run();
        const auto* xent = std::get_if<SoftmaxXent>(&c_.op());
        return xent ? reference.loss_sum / (xent->sum ? 1 : double(c_.setting.global_batch))
                    : dot(reference.values[y_], dy_);
    }

    /// Checks a gradient; `operand` selects the vector of a Reference that it belongs to.
    template <class Operand>
    void check(const Reference& at, const Floats& gradient, Operand operand, const std::string& what) {
        double norm = 0;
        for (float g : gradient) norm += double(g) * double(g);
        norm = std::sqrt(norm);
        for (uint64_t seed = 400; seed < 403; ++seed) {
            const Floats u = normals(gradient.size(), seed);
            Reference more = at, less = at;
            for (size_t i = 0; i < u.size(); ++i) {
                operand(more)[i] += c_.h * double(u[i]);
                operand(less)[i] -= c_.h * double(u[i]);
            }
            const double expected = (loss(more) - loss(less)) / (2 * c_.h);
            // 1e-3: in case it is zero
            EXPECT_NEAR(dot(widened(gradient), u), expected, c_.gradient_tolerance * (norm + 1e-3)) << what;
        }
    }
};

TEST_P(OpGradients, MatchDifferences) {
    const Pair pair = ran();
    for (const ValueId id : c_.inputs())
        check(
            pair.reference, pair.backend.gradient(id), [id](Reference& r) -> Doubles& { return r.values[id]; },
            "value " + std::to_string(id));
    for (const ParamId id : c_.trained())
        check(
            pair.reference, pair.backend.param_gradient(id), [id](Reference& r) -> Doubles& { return r.params[id]; },
            "parameter " + std::to_string(id));
}

class OpGradientsOfInputs : public OpGradients {};

TEST_P(OpGradientsOfInputs, AreAddedToWhatIsThere) {
    const Pair plain = ran();
    const double rounding = c_.type() == DType::bf16 ? 0x1p-7 : c_.type() == DType::f16 ? 0x1p-10 : 5e-7;
    for (const ValueId id : c_.inputs()) {
        const Floats written = plain.backend.gradient(id), there = rounded(c_.type(), normals(written.size(), 500));
        const Pair added = ran([&](OpHarness& ops) {
            ops.accumulate(id);
            ops.set_gradient(id, there);
        });
        const Floats sum = added.backend.gradient(id);
        // If the addition is fused into the op, its sum may begin with the present value. It then
        // rounds other partial sums, which are as large as the largest gradients.
        double largest = 1e-2;
        for (const float w : written) largest = std::max(largest, double(std::abs(w)));
        for (size_t i = 0; i < sum.size(); ++i)
            ASSERT_NEAR(sum[i], there[i] + written[i], rounding * (std::abs(there[i]) + largest))
                << "value " << id << " at " << i;
        for (const ValueId other : c_.inputs()) {
            if (other == id) continue;
            EXPECT_EQ(added.backend.gradient(other), plain.backend.gradient(other));
        }
    }
}

TEST_P(OpGradientsOfInputs, MayBeUnwanted) {
    const Pair plain = ran();
    const Pair without = ran([&](OpHarness& ops) { ops.unwanted(c_.inputs()[0]); });
    for (const ParamId id : c_.trained())
        EXPECT_EQ(without.backend.param_gradient(id), plain.backend.param_gradient(id));
    for (size_t i = 1; i < c_.inputs().size(); ++i)
        EXPECT_EQ(without.backend.gradient(c_.inputs()[i]), plain.backend.gradient(c_.inputs()[i]));
}

std::string name_of_test(const testing::TestParamInfo<OnDevice>& test) { return name_of(test.param); }
INSTANTIATE_TEST_SUITE_P(All, OpGradients, testing::ValuesIn(all_cases()), name_of_test);
INSTANTIATE_TEST_SUITE_P(All, OpGradientsOfInputs, testing::ValuesIn(all_cases_but_losses()), name_of_test);

}  // namespace
}  // namespace convoy::test
