// Batch norm's kernels where the CPU backend has no counterpart: smooth activations, no scale, the
// halves between which ranks run an all-reduce, operands in one place, and sizes that take many
// blocks. The reference is a scalar loop in double.
#include "tests/kernels/norm_case.h"  // must come first: it changes CUDA's headers

#include <algorithm>

namespace convoy::test {
namespace {

using kernels::Act;

TEST(KernelBatchNorm, Activates) {
    for (const Act act : {Act::identity, Act::relu, Act::gelu})
        for (const bool scaled : {true, false})
            for (const Layout& layout : layouts()) {
                SCOPED_TRACE(name_of(layout) + " activation " + std::to_string(int(act)));
                const Norm n({3, 7, 5, 21}, act, layout.type, scaled);
                check(n, in_every_order([&] {
                          Rank rank(n, layout);
                          rank.run();
                          EXPECT_TRUE(rank.y.padding_is_zero() && rank.dx.padding_is_zero());
                          for (size_t c = 21; c < rank.mean.size(); ++c)
                              EXPECT_TRUE(rank.mean[c] == 0 && rank.invstd[c] == 0);
                          return rank.results();
                      }),
                      layout.type);
            }
}

TEST(KernelBatchNorm, TakesManyBlocks) {
    // many chunks, three threads wide
    const std::vector<std::pair<Shape, Layout>> sizes = {
        {{5, 31, 31, 3}, {DType::f32, 1, 0}},
        // 17 tiles, off the fast path
        {{2, 9, 9, 520}, {DType::f32, 1, 0}},
        {{1, 9, 9, 2048}, {DType::bf16, 8, 0}},  // 8 tiles
        // 33 groups: two unequal tiles
        {{3, 5, 7, 264}, {DType::f16, 8, 0}},
        // more than the most chunks
        {{2, 200, 200, 1}, {DType::f32, 1, 0}},
        {{1, 1100, 1100, 4}, {DType::f32, 4, 0}}};  // 4 rows and more a thread, in every pass
    for (const auto& [shape, layout] : sizes) {
        SCOPED_TRACE(shape.c);
        Rank rank(Norm(shape, Act::relu, layout.type), layout);
        rank.run();
        check(rank.norm, rank.results(), layout.type);
    }
}

/// Returns images [first, last) of a Norm.
Norm part(const Norm& n, int first, int last) {
    Norm p = n;
    const size_t image = n.shape.count() / size_t(n.shape.n);
    p.shape.n = last - first;
    const auto cut = [&](const Floats& v) {
        return Floats(v.begin() + ptrdiff_t(size_t(first) * image), v.begin() + ptrdiff_t(size_t(last) * image));
    };
    p.x = cut(n.x);
    p.dy = cut(n.dy);
    return p;
}

/// Does the all-reduce between the halves.
void add_up(std::vector<Doubles>& ranks) {
    Doubles total(ranks[0].size());
    for (const Doubles& r : ranks)
        for (size_t i = 0; i < total.size(); ++i) total[i] += r[i];
    for (Doubles& r : ranks) r = total;
}

TEST(KernelBatchNorm, InHalvesOverRanksIsTheSame) {
    const Layout layout{DType::f32, 8, 0};
    const Norm whole({6, 5, 3, 21}, Act::relu, layout.type);
    Rank one(whole, layout);
    one.run();
    std::vector<Rank> ranks;
    for (const auto& [first, last] : {std::pair{0, 4}, {4, 4}, {4, 6}})
        ranks.emplace_back(part(whole, first, last), layout);  // one rank has no images
    std::vector<Doubles> sums(ranks.size(), Doubles(2 * 21 + 1, NAN));
    for (size_t r = 0; r < ranks.size(); ++r)
        kernels::batch_norm_sums(ranks[r].args(), sums[r].data(), ranks[r].workspace.data(), nullptr);
    add_up(sums);
    EXPECT_EQ(sums[0].back(), 6 * 5 * 3);
    for (size_t r = 0; r < ranks.size(); ++r) kernels::batch_norm_normalise(ranks[r].args(), sums[r].data(), nullptr);
    for (size_t r = 0; r < ranks.size(); ++r) {
        sums[r].assign(sums[r].size(), NAN);
        kernels::batch_norm_gradient_sums(ranks[r].args(), ranks[r].gradients(), sums[r].data(),
                                          ranks[r].workspace.data(), nullptr);
    }
    add_up(sums);
    for (size_t r = 0; r < ranks.size(); ++r)
        kernels::batch_norm_gradient_apply(ranks[r].args(), ranks[r].gradients(), sums[r].data(), nullptr);

    Floats y, dx, dscale(21), dbias(21);
    for (Rank& r : ranks) {
        for (float v : r.y.get()) y.push_back(v);
        for (float v : r.dx.get()) dx.push_back(v);
        for (size_t k = 0; k < 21; ++k) {
            dscale[k] += r.dscale[k];
            dbias[k] += r.dbias[k];
        }
        EXPECT_LE(test::distance(r.running_mean, one.running_mean), 1e-6);
        EXPECT_LE(test::distance(r.running_var, one.running_var), 1e-6);
    }
    check(whole, {y, dx, dscale, dbias}, layout.type);
}

// A convolution sums in float about zero, while the kernels sum about a pivot. Values are about
// one.
TEST(KernelBatchNorm, TakesTheSumsOfAConvolution) {
    for (const Layout& layout : layouts()) {
        SCOPED_TRACE(name_of(layout));
        const Norm norm({6, 5, 3, 21}, Act::relu, layout.type);
        Rank own(norm, layout), given(norm, layout);
        own.run();
        const size_t stored = size_t(given.args().x.shape.c);
        Floats sum(stored, NAN), squares(stored, NAN);
        std::fill_n(sum.begin(), 21, 0.0f), std::fill_n(squares.begin(), 21, 0.0f);
        const Floats x = given.x.get();
        for (size_t i = 0; i < x.size(); ++i) sum[i % 21] += x[i], squares[i % 21] += x[i] * x[i];
        kernels::batch_norm_forward(given.args(), sum.data(), squares.data(), nullptr);
        const double near = 2e-6 + (layout.type == DType::f32 ? 0 : 2 * rounding(layout.type));
        EXPECT_LE(test::distance(given.y.get(), own.y.get()), near * test::length(own.y.get()));
        EXPECT_LE(test::distance(given.running_mean, own.running_mean), 2e-6 * test::length(own.running_mean));
        EXPECT_LE(test::distance(given.running_var, own.running_var), 2e-6 * test::length(own.running_var));
        EXPECT_TRUE(given.y.padding_is_zero());

        // For a reader that normalises by itself: vectors in x's type, everything else as before.
        Rank left(norm, layout);
        KernelTensor scale({1, 1, 1, 21}, layout), bias({1, 1, 1, 21}, layout);
        kernels::batch_norm_statistics(left.args(), sum.data(), squares.data(), scale.tensor().data, bias.tensor().data,
                                       nullptr);
        EXPECT_EQ(left.mean, given.mean);
        EXPECT_EQ(left.invstd, given.invstd);
        EXPECT_EQ(left.running_mean, given.running_mean);
        EXPECT_EQ(left.running_var, given.running_var);
        for (size_t c = 21; c < stored; ++c) EXPECT_TRUE(left.mean[c] == 0 && left.invstd[c] == 0);
        EXPECT_TRUE(scale.padding_is_zero() && bias.padding_is_zero());
        const Floats a = scale.get(), b = bias.get();
        Floats y(x.size());
        for (size_t i = 0; i < x.size(); ++i) y[i] = std::max(a[i % 21] * x[i] + b[i % 21], 0.0f);
        EXPECT_LE(test::distance(y, own.y.get()), 2 * near * test::length(own.y.get()));
    }
}

// Takes a convolution's data gradient that masks dy and writes dscale and dbias: dx is the same.
TEST(KernelBatchNorm, TakesTheSumsOfADataGradient) {
    for (const Layout& layout : layouts())
        for (const bool accumulate : {false, true}) {
            SCOPED_TRACE(name_of(layout) + (accumulate ? " added" : ""));
            const Norm norm({6, 5, 3, 21}, Act::relu, layout.type);
            Rank own(norm, layout), given(norm, layout);
            const Floats there = rounded(normals(norm.x.size(), 8), layout.type);
            for (Rank* rank : {&own, &given}) {
                kernels::batch_norm_forward(rank->args(), rank->workspace.data(), nullptr);
                rank->dx.put(there);
            }
            kernels::BatchNormGradients of_own = own.gradients(), of_given = given.gradients();
            of_own.accumulate_dx = of_given.accumulate_dx = accumulate;
            kernels::batch_norm_backward(own.args(), of_own, own.workspace.data(), nullptr);
            Floats masked = norm.dy;
            const Floats y = given.y.get();
            for (size_t i = 0; i < y.size(); ++i) masked[i] = y[i] > 0 ? masked[i] : 0;
            given.dy.put(masked);
            given.dscale = own.dscale;
            given.dbias = own.dbias;
            given.workspace.assign(given.workspace.size(), 0xff);
            kernels::batch_norm_backward_of_sums(given.args(), of_given, given.workspace.data(), nullptr);
            EXPECT_LE(test::distance(given.dx.get(), own.dx.get()),
                      (1e-6 + (layout.type == DType::f32 ? 0 : rounding(layout.type))) * test::length(own.dx.get()));
            EXPECT_EQ(given.dscale, own.dscale);
            EXPECT_TRUE(given.dx.padding_is_zero());
        }
}

// A batch norm with a max-pool before it equals the pool's kernels followed by its own, bit for
// bit: the same values, the same sums in the same order. Only a gradient that is added is rounded
// once less, because it is not stored in between.
TEST(KernelBatchNorm, OneKernelDoesAMaxPoolAndTheNormAfterIt) {
    for (const int pool : {2, 3})
        for (const auto& [h, w] : {std::pair{6, 6}, {7, 11}, {8, 5}})
            for (const Layout& layout : layouts()) {
                SCOPED_TRACE(name_of(layout) + " pool " + std::to_string(pool) + " of " + std::to_string(h) + "x" +
                             std::to_string(w));
                const Shape before{3, h, w, 21}, after{3, h / pool, w / pool, 21};
                const Pool op{Pool::max, 0, 0, pool, pool, 0};
                const Norm norm(after, Act::gelu, layout.type);
                const Floats pixels = rounded(normals(before.count(), 9), layout.type),
                             there = rounded(normals(before.count(), 8), layout.type);
                const size_t stored = size_t(layout.stored(21)) * after.pixels();
                for (const bool accumulate : {false, true}) {
                    const auto run = [&](bool fused) {
                        Rank rank(norm, layout);
                        const KernelTensor image(before, layout, pixels), dimage(before, layout);
                        KernelTensor dx(before, layout);
                        if (accumulate) dx.put(there);
                        std::vector<uint8_t> index(stored, 0xff);
                        kernels::BatchNormArgs n = rank.args();
                        kernels::BatchNormGradients g = rank.gradients();
                        if (fused) {
                            n.image = image.tensor();
                            n.pool = pool;
                            n.index = index.data();
                            g.dx = dx.tensor();
                            g.accumulate_dx = accumulate;
                        } else {
                            kernels::pool_forward(op, image.tensor(), n.x, index.data(), nullptr);
                        }
                        kernels::batch_norm_forward(n, rank.workspace.data(), nullptr);
                        kernels::batch_norm_backward(n, g, rank.workspace.data(), nullptr);
                        if (!fused) kernels::pool_backward(op, g.dx, dx.tensor(), index.data(), accumulate, nullptr);
                        EXPECT_TRUE(dx.padding_is_zero() && rank.x.padding_is_zero());
                        std::vector<Floats> results = {rank.x.get(),      Floats(index.begin(), index.end()),
                                                       rank.y.get(),      dx.get(),
                                                       rank.dscale,       rank.dbias,
                                                       rank.running_mean, rank.running_var};
                        if (fused) {  // in inference only y is written
                            n.x.data = nullptr;
                            n.index = nullptr;
                        }
                        kernels::batch_norm_inference(n, nullptr);
                        results.push_back(rank.y.get());
                        return results;
                    };
                    const auto fused = in_every_order([&] { return run(true); });
                    const auto apart = run(false);
                    for (size_t i = 0; i < fused.size(); ++i) {
                        const double tolerance =
                            i == 3 && accumulate && layout.type != DType::f32 ? rounding(layout.type) : 0;
                        EXPECT_LE(test::distance(fused[i], apart[i]), tolerance * test::length(apart[i])) << i;
                    }
                }
            }
}

TEST(KernelBatchNorm, WorksInPlace) {
    const Layout layout{DType::f32, 1, 0};
    const Norm n({2, 3, 5, 21}, Act::gelu, layout.type);
    Rank apart(n, layout), together(n, layout);
    apart.run();
    kernels::batch_norm_forward(together.args(), together.workspace.data(), nullptr);
    kernels::BatchNormGradients g = together.gradients();
    g.dx = g.dy;
    kernels::batch_norm_backward(together.args(), g, together.workspace.data(), nullptr);
    EXPECT_EQ(together.dy.get(), apart.dx.get());

    kernels::batch_norm_inference(apart.args(), nullptr);
    kernels::BatchNormArgs same = apart.args();
    same.y = same.x;
    kernels::batch_norm_inference(same, nullptr);
    EXPECT_EQ(apart.x.get(), apart.y.get());
}

TEST(KernelBatchNorm, ANotANumberStaysOne) {
    for (const Act act : {Act::identity, Act::relu, Act::gelu}) {
        Norm n({2, 3, 5, 4}, act, DType::f32);
        n.x[6] = NAN;
        Rank rank(n, {});
        rank.run();
        for (size_t i = 0; i < n.x.size(); ++i) EXPECT_EQ(std::isnan(rank.y.get()[i]), i % 4 == 2);
        EXPECT_TRUE(std::isnan(rank.dscale[2]));
        EXPECT_EQ(rank.running_mean[2], 0.25f) << "the step will be left out";
        EXPECT_EQ(rank.running_var[2], 1.5f);
    }
}

TEST(KernelBatchNorm, RefusesOperandsThatDoNotFit) {
    Rank rank(Norm({2, 3, 5, 4}, Act::gelu, DType::f32), {});
    kernels::BatchNormArgs n = rank.args();
    n.channels = 5;
    EXPECT_THROW(kernels::batch_norm_inference(n, nullptr), std::logic_error);
    n = rank.args();
    n.residual = n.x;
    n.residual_channels = 4;
    EXPECT_THROW(kernels::batch_norm_inference(n, nullptr), std::logic_error);  // smooth activations are not supported
    n.act = Act::relu;
    EXPECT_NO_THROW(kernels::batch_norm_inference(n, nullptr));
    n.residual_channels = 5;
    EXPECT_THROW(kernels::batch_norm_inference(n, nullptr), std::logic_error);
}

}  // namespace
}  // namespace convoy::test
