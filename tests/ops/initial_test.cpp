// Initial weights, compared with PyTorch's definitions written here by layer:
// kaiming_normal_(mode="fan_out") for convolutions of residual networks; otherwise the defaults of
// Conv2d and Linear, kaiming_uniform_(a=sqrt(5)), for weights and biases alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/models.h"
#include "tests/ops/op_harness.h"
#include "train/state.h"

namespace convoy::test {
namespace {

/// Initial values of parameters by name, for all seeds in order.
using Draws = std::map<std::string, std::vector<double>>;

Draws draws_of(const Graph& graph, int seeds) {
    const std::unique_ptr<Backend> backend = make_test_backend("cpu");
    State state(graph, *backend, nullptr);
    Draws draws;
    for (int seed = 1; seed <= seeds; ++seed) {
        state.initialise(graph, *backend, uint64_t(seed));
        for (const NamedTensor& t : state.model()) {
            const Floats values = download<float>(*backend, t.tensor.data, t.tensor.count());
            draws[t.name].insert(draws[t.name].end(), values.begin(), values.end());
        }
    }
    return draws;
}

double largest(const std::vector<double>& v) {
    double most = 0;
    for (const double x : v) most = std::max(most, std::abs(x));
    return most;
}

/// Expects mean 0, this deviation, and this ratio of the mean fourth power to the deviation's: 3 in
/// a normal distribution, 1.8 in a uniform one.
void expect_moments(const std::string& name, const std::vector<double>& v, double deviation, double kurtosis) {
    const double n = double(v.size());
    double sum = 0, squares = 0, fourths = 0;
    for (const double x : v) {
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
    }
    // Bounds are five deviations of each estimate for a normal distribution, which has the larger
    // ones.
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << name;
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 5 * deviation / std::sqrt(2 * n)) << name;
    EXPECT_NEAR(fourths / n / std::pow(squares / n, 2), kurtosis, 5 * std::sqrt(24 / n)) << name;
}

/// kaiming_normal_(mode="fan_out", nonlinearity="relu"): deviation sqrt(2) / sqrt(fan_out).
void expect_kaiming_normal(const std::string& name, const std::vector<double>& v, double fan_out) {
    expect_moments(name, v, std::sqrt(2 / fan_out), 3);
}

void expect_uniform(const std::string& name, const std::vector<double>& v, double bound) {
    expect_moments(name, v, bound / std::sqrt(3), 1.8);
    EXPECT_LE(largest(v), bound * (1 + 1e-6)) << name;  // float's rounding
    // The chance that n draws all stay below 1 - 20 / n of the bound is exp(-20).
    EXPECT_GE(largest(v), bound * (1 - 20 / double(v.size()))) << name;
}

/// kaiming_uniform_(a=sqrt(5)): gain sqrt(2 / (1 + a^2)), bound gain * sqrt(3 / fan_in). The
/// default of biases has the same bound.
void expect_torch_default(const std::string& name, const std::vector<double>& v, double fan_in) {
    const double gain = std::sqrt(2.0 / (1 + 5));
    expect_uniform(name, v, gain * std::sqrt(3 / fan_in));
}

void expect_constant(const std::string& name, const std::vector<double>& v, double value) {
    EXPECT_EQ(v, std::vector<double>(v.size(), value)) << name;
}

const Param& param(const Graph& graph, const std::string& name) {
    const auto found =
        std::find_if(graph.params.begin(), graph.params.end(), [&](const Param& p) { return p.name == name; });
    require(found != graph.params.end(), "a test names parameters that are there");
    return *found;
}

void expect_norms(const Draws& draws) {
    for (const auto& [name, values] : draws) {
        if (name.find(".bn") == std::string::npos && !name.starts_with("bn")) continue;
        expect_constant(name, values, name.ends_with(".scale") || name.ends_with(".var") ? 1 : 0);
    }
}

TEST(Initial, ResidualNetworksHaveTheirDistributions) {
    const ModelOptions colour{"pyramidnet", 32, 32, 3, 10};
    for (const Graph& graph : {build_resnet18({"resnet18", 32, 32, 3, 10}), build_pyramidnet(colour, 2)}) {
        const Draws draws = draws_of(graph, 1);
        int convolutions = 0;
        for (const auto& [name, values] : draws) {
            if (!name.ends_with(".weight") || name == "fc.weight") continue;
            ++convolutions;
            const Shape s = param(graph, name).shape;  // [out, kernel, kernel, in]
            expect_kaiming_normal(graph.model + " " + name, values, double(s.n * s.h * s.w));
        }
        EXPECT_EQ(convolutions, graph.model == "resnet18" ? 20 : 13);
        expect_torch_default(graph.model + " fc.weight", draws.at("fc.weight"), param(graph, "fc.weight").shape.c);
        expect_norms(draws);
    }
}

TEST(Initial, MnistModelsHaveTorchsDefaults) {
    const Draws conv = draws_of(build_mnist_conv({"mnist-conv", 28, 28, 1, 10}), 40);
    const std::map<std::string, double> fan_in = {
        {"conv1", 5 * 5}, {"conv2", 10 * 5 * 5}, {"fc1", 20 * 4 * 4}, {"fc2", 50}};
    EXPECT_EQ(conv.size(), 2 * fan_in.size());
    for (const auto& [layer, inputs] : fan_in)
        for (const char* part : {".weight", ".bias"}) expect_torch_default(layer + part, conv.at(layer + part), inputs);
    const Draws linear = draws_of(build_linear({"mnist-linear", 28, 28, 1, 10}), 40);
    for (const char* name : {"fc.weight", "fc.bias"}) expect_torch_default(name, linear.at(name), 28 * 28);
}

// The first filters of each convolution in a group copy one channel each (dirac_). There are as
// many of them as input channels.
TEST(Initial, Airbench94CopiesChannels) {
    for (const bool muon : {false, true}) {
        const Graph graph = build_airbench94({"airbench94", 32, 32, 3, 10}, muon);
        const Draws draws = draws_of(graph, 1);
        const std::map<std::string, std::pair<int, int>> out_in = {
            {"group1.conv1", {64, 24}},   {"group1.conv2", {64, 64}},   {"group2.conv1", {256, 64}},
            {"group2.conv2", {256, 256}}, {"group3.conv1", {256, 256}}, {"group3.conv2", {256, 256}}};
        for (const auto& [layer, channels] : out_in) {
            const auto [out, in] = channels;
            const std::vector<double>& all = draws.at(layer + ".weight");
            ASSERT_EQ(all.size(), size_t(out) * 9 * size_t(in)) << layer;
            std::vector<double> copying(size_t(in) * 9 * size_t(in));
            for (size_t c = 0; c < size_t(in); ++c) copying[(c * 9 + 4) * size_t(in) + c] = 1;  // the middle of 3x3
            const auto rest = all.begin() + ptrdiff_t(copying.size());
            EXPECT_EQ(std::vector<double>(all.begin(), rest), copying) << layer;
            if (rest != all.end()) expect_torch_default(layer, {rest, all.end()}, 9.0 * in);
        }
        if (muon)
            expect_uniform("fc.weight", draws.at("fc.weight"), std::sqrt(3.0));  // a deviation of 1
        else
            expect_torch_default("fc.weight", draws.at("fc.weight"), 256);
        expect_constant("whitening.bias", draws.at("whitening.bias"), 0);
        expect_norms(draws);
    }
}

}  // namespace
}  // namespace convoy::test
