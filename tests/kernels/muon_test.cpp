// Muon's kernels: compared with the CPU backend, and loss scaling through steps that are not
// finite.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

using kernels::Segment;

/// Wide and tall matrices that fit a tile and that do not, after a segment that sgd trains; with
/// copies in bf16.
struct MuonArena {
    std::vector<std::pair<int, int>> shapes = {{6, 18}, {16, 5}, {1, 7}, {8, 8}, {40, 70}, {70, 33}};
    OptimizerSpec spec{OptimizerSpec::sgd, 0.85f, true};
    size_t count = stats_elements;
    std::vector<UpdateSegment> updates;
    std::vector<Segment> segments;
    std::vector<kernels::MuonMatrix> matrices;
    std::vector<Floats> memory;
    std::vector<std::vector<double>> squares;
    std::vector<KernelTensor> copies;
    Floats weights, gradients, state, rates = {0.1f, 0.3f, 0.2f, 0.05f};
    Counters counters{};
    BatchStats stats{};

    MuonArena() {
        updates.push_back({count, count + 32, 0.01f});  // not a matrix
        count += 32;
        Segment plain{int64_t(count) - 32, int64_t(count), 0.01f};
        plain.count = 32;
        segments.push_back(plain);
        for (const auto& [rows, columns] : shapes) {
            const size_t n = size_t(rows * columns), padded = (n + 15) / 16 * 16,
                         side = size_t(std::min(rows, columns));
            UpdateSegment u{count, count + padded, 0, 2.4f};
            u.rows = rows;
            u.columns = columns;
            updates.push_back(u);
            const auto floats = [&](size_t size) { return memory.emplace_back(size).data(); };
            squares.emplace_back(2 * kernels::MuonMatrix::parts);
            matrices.push_back({int64_t(count),
                                INT64_MAX,
                                rows,
                                columns,
                                {floats(padded), floats(padded)},
                                floats(side * side),
                                floats(side * side),
                                squares.back().data(),
                                floats(1)});
            copies.emplace_back(Shape{rows, 1, 1, columns}, Layout{DType::bf16, 8, 0});
            copies.back().put(Floats(n, NAN));
            Segment s{int64_t(count), int64_t(count + padded),       0,           2.4f,
                      INT64_MAX,      copies.back().tensor().data,   DType::bf16, int64_t(n),
                      columns,        copies.back().tensor().shape.c};
            s.direction = matrices.back().direction();
            s.rescale = matrices.back().rescale;
            segments.push_back(s);
            count += padded;
        }
        weights = real(1);
        state = Floats(count);
    }
    Floats real(uint64_t seed) const { return values_of(segments, count, seed); }
    Update update() {
        return {spec,    weights.data(), gradients.data(), state.data(), count,
                updates, rates.data(),   &counters,        &stats,       false};
    }
    void step(const kernels::LossScale* scale = nullptr) {
        kernels::orthogonalise(update(), matrices.data(), matrices, scale, nullptr);
        kernels::update(update(), segments.data(), int(segments.size()), scale, nullptr);
    }
};

// Three steps. Directions have entries below one; a step moves by at most 0.3 * 2.4 of them, and
// both backends iterate in float.
TEST(KernelMuon, IsTheCpuBackends) {
    const auto cpu = make_test_backend("cpu");
    const std::vector<Floats> results = in_every_order([&] {
        MuonArena kernel, reference;
        reference.gradients = Floats(reference.count);
        Tape tape;
        cpu->update(reference.update(), tape);
        const auto run = cpu->finish(tape);
        for (int step = 0; step < 3; ++step) {
            kernel.counters.step = reference.counters.step = step;
            kernel.gradients = kernel.real(10 + uint64_t(step));
            // the reference's tape has this address
            std::copy(kernel.gradients.begin(), kernel.gradients.end(), reference.gradients.begin());
            kernel.step();
            run();
        }
        for (size_t i = 0; i < kernel.count; ++i) {
            EXPECT_NEAR(kernel.weights[i], reference.weights[i], 2e-5) << i;
            EXPECT_NEAR(kernel.state[i], reference.state[i], 2e-6) << i;
        }
        for (size_t k = 0; k < kernel.copies.size(); ++k) {
            const auto begin = kernel.weights.begin() + kernel.segments[k + 1].begin;
            EXPECT_EQ(kernel.copies[k].get(), rounded(Floats(begin, begin + kernel.segments[k + 1].count), DType::bf16))
                << k;
            EXPECT_TRUE(kernel.copies[k].padding_is_zero()) << k;
        }
        return std::vector<Floats>{kernel.weights, kernel.state};
    });
    EXPECT_NE(results[0], MuonArena().weights);
}

TEST(KernelMuon, UnscalesGradientsAndLeavesOutAStepThatIsNotFinite) {
    MuonArena plain, scaled;
    plain.gradients = scaled.gradients = plain.real(2);
    kernels::LossScale scale;
    for (float& g : scaled.gradients) g *= scale.scale;  // a power of two: exact
    plain.step();
    scaled.step(&scale);
    EXPECT_EQ(scaled.weights, plain.weights);
    EXPECT_EQ(scaled.state, plain.state);
    scale.finite = 0;
    scaled.gradients[40] = NAN;
    scaled.step(&scale);
    EXPECT_EQ(scaled.weights, plain.weights);
    EXPECT_EQ(scaled.state, plain.state);
}

}  // namespace
}  // namespace convoy::test
