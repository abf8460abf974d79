// Pooling of NaNs: the maximum of a window that holds one is NaN.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

// The position in the window does not matter; the gradient goes to the same position.
TEST(KernelPool, ANaNIsTheMaximumOfItsWindow) {
    constexpr int side = 4, channels = 3;
    const Shape shape{1, side, side, channels}, half{1, side / 2, side / 2, channels};
    const Pool op{Pool::max, 0, 1, 2, 2, 0};
    const Floats drawn = normals(shape.count(), 5), ones(half.count(), 1);
    for (const Layout& layout : layouts())
        for (size_t bad = 0; bad < shape.count(); bad += channels) {
            SCOPED_TRACE(name_of(layout) + " " + std::to_string(bad));
            Floats values = rounded(drawn, layout.type);
            values[bad] = NAN;
            const size_t row = bad / channels / side, column = bad / channels % side;
            const size_t window = (row / 2 * (side / 2) + column / 2) * channels;
            in_every_order([&] {
                const KernelTensor x(shape, layout, values), y(half, layout), dy(half, layout, ones), dx(shape, layout);
                std::vector<uint8_t> index(size_t(half.pixels()) * size_t(y.tensor().shape.c));
                kernels::pool_forward(op, x.tensor(), y.tensor(), index.data(), nullptr);
                kernels::pool_backward(op, dy.tensor(), dx.tensor(), index.data(), false, nullptr);
                const Floats maxima = y.get();
                for (size_t i = 0; i < maxima.size(); ++i) EXPECT_EQ(std::isnan(maxima[i]), i == window) << i;
                EXPECT_EQ(dx.get()[bad], 1);
                return std::vector<Floats>{dx.get()};
            });
        }
}

}  // namespace
}  // namespace convoy::test
