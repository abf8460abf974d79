// The ops that tests run, at odd sizes, each with its tolerances and the reason for them. A backend
// and the reference get the same random data.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/ops/op_harness.h"
#include "tests/ops/op_reference.h"

namespace convoy::test {

struct OpCase {
    std::string name;  ///< letters, digits and underscores
    Graph graph;       ///< one op
    int batch;
    double value_tolerance;     ///< relative to an output's largest element
    double gradient_tolerance;  ///< relative to a gradient's L2 norm
    /// step of the differences; 1 if the op is linear in each operand, so that they are exact
    double h = 1;
    float offset = 0;  ///< mean of the inputs
    OpSetting setting{};
    Graph padded{};  ///< in low precision: the same graph with channels padded as GPUs need them

    DType type() const { return graph.values[0].dtype; }
    const Op& op() const { return graph.ops[0]; }
    std::vector<ValueId> inputs() const;  ///< without duplicates
    std::vector<ParamId> trained() const;
};

/// Returns all cases in f32, and those that are not losses also in bf16 and f16.
const std::vector<OpCase>& op_cases();

/// Returns n normal draws, the same on every machine.
Floats normals(size_t n, uint64_t seed, float mean = 0, float deviation = 1);
Doubles widened(const Floats&);

/// A case on a backend and as scalar loops, with the same inputs, parameters and labels.
struct Pair {
    OpHarness backend;
    Reference reference;
    Pair(Backend&, const OpCase&, OpSetting);
};

/// A device and a case for TEST_P: "cpu" and the index of the case. Convolutions on CPUs occur once
/// per algorithm that can run them. In low precision, channels are padded on GPUs.
struct OnDevice {
    std::string device;
    size_t index;
    ConvBy by = ConvBy::measured;
    const OpCase& op_case() const { return op_cases()[index]; }
    Backend& backend() const;  ///< shared by all tests
};
std::vector<OnDevice> all_cases();
std::vector<OnDevice> all_cases_but_losses();  ///< only a loss reads logits
std::string name_of(const OnDevice&);
void PrintTo(const OnDevice&, std::ostream*);

}  // namespace convoy::test
