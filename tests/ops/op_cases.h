// The ops that tests run, at odd sizes, each with its tolerances and their reason, and the same
// random data for a backend and for the reference.
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
    double value_tolerance;     ///< of an output's largest element
    double gradient_tolerance;  ///< of a gradient's L2 norm
    /// step of the differences; 1 where the op is linear in each operand, so that they are exact
    double h = 1;
    float offset = 0;  ///< mean of the inputs
    OpSetting setting{};

    DType type() const { return graph.values[0].dtype; }
    const Op& op() const { return graph.ops[0]; }
    std::vector<ValueId> inputs() const;  ///< each once
    std::vector<ParamId> trained() const;
};

/// In f32, then those that are not losses in bf16 too.
const std::vector<OpCase>& op_cases();

/// n normal draws, equal everywhere.
Floats normals(size_t n, uint64_t seed, float mean = 0, float deviation = 1);
Doubles widened(const Floats&);

/// A case on a backend and as scalar loops, with the same inputs, parameters and labels.
struct Pair {
    OpHarness backend;
    Reference reference;
    Pair(Backend&, const OpCase&, OpSetting);
};

/// For TEST_P over all devices and cases: "cpu", index of the case; convolutions on CPUs by each
/// way that can. In bf16 only CPUs take any number of channels.
struct OnDevice {
    std::string device;
    size_t index;
    ConvBy by = ConvBy::measured;
    const OpCase& op_case() const { return op_cases()[index]; }
};
std::vector<OnDevice> all_cases();
std::vector<OnDevice> all_cases_but_losses();  ///< nothing but a loss reads logits
std::string name_of(const OnDevice&);
void PrintTo(const OnDevice&, std::ostream*);

}  // namespace convoy::test
