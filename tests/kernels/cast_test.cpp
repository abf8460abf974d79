// The kernel that converts a list of padded matrices to dense f32: the same bits as a loop over
// elements, for any sizes, alignment, types and length of the list.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

/// A padded matrix with more rows than are wanted, and its dense target within NaN.
struct Matrix {
    int64_t rows;
    int channels, shift;  // shift: floats between a 16-byte boundary and the target
    KernelTensor padded;
    Floats dense;
    Floats target;

    Matrix(int64_t r, int c, Layout layout, int target_shift, uint64_t seed)
        : rows(r),
          channels(c),
          shift(target_shift),
          padded({int(r) + 3, 1, 1, c}, layout),
          dense(rounded(normals(size_t(r + 3) * size_t(c), seed), layout.type)),
          target(size_t(r) * size_t(c) + 8, NAN) {
        require(reinterpret_cast<uintptr_t>(target.data()) % 16 == 0, "the heap is aligned");
        padded.put(dense);
        dense.resize(size_t(rows) * size_t(channels));
    }
    kernels::Cropped cropped() { return {padded.tensor(), rows, channels, target.data() + shift}; }
    void expect_dense(const std::string& what) const {
        const auto begin = target.begin() + shift, end = begin + int64_t(dense.size());
        EXPECT_EQ(Floats(begin, end), dense) << what;
        for (auto i = target.begin(); i != target.end(); ++i)
            if (i < begin || i >= end) {
                EXPECT_TRUE(std::isnan(*i)) << what << ": written outside of the target";
            }
    }
};

const std::vector<std::pair<int, int>> sizes = {{1, 1},  {21, 26}, {279, 3},  {5, 16},   {3, 300},
                                                {0, 21}, {16, 12}, {1, 4096}, {1, 4099}, {700, 24}};

TEST(KernelCast, AListIsConvertedLikeEachOfItsMatrices) {
    std::vector<Matrix> all;
    uint64_t seed = 0;
    for (const Layout& layout : layouts())
        for (const auto& [rows, channels] : sizes)
            for (const int shift : {0, 1, 4}) all.emplace_back(rows, channels, layout, shift, ++seed);
    ASSERT_GT(all.size(), 200u) << "more than two launches of one list";
    in_every_order([&] {
        std::vector<kernels::Cropped> list;
        for (Matrix& m : all) {
            std::fill(m.target.begin(), m.target.end(), NAN);
            list.push_back(m.cropped());
        }
        kernels::crop(list, nullptr);
        for (const Matrix& m : all)
            m.expect_dense(std::to_string(m.rows) + "x" + std::to_string(m.channels) + " shifted by " +
                           std::to_string(m.shift));
        return std::vector<Floats>{};
    });
}

TEST(KernelCast, AListOfOneTypeMayBeLongerThanALaunchTakes) {
    for (const int count : {1, 99, 100, 101, 200, 201}) {
        std::vector<Matrix> all;
        for (int i = 0; i < count; ++i) all.emplace_back(1 + i % 7, 5 + i, Layout{DType::f16, 8, 0}, 0, uint64_t(i));
        std::vector<kernels::Cropped> list;
        for (Matrix& m : all) list.push_back(m.cropped());
        kernels::crop(list, nullptr);
        for (const Matrix& m : all) m.expect_dense(std::to_string(count));
    }
}

TEST(KernelCast, AnEmptyListAndOneOfEmptyMatricesDoNothing) {
    const Traffic before = traffic();
    kernels::crop({}, nullptr);
    Matrix none(0, 8, {DType::bf16, 8, 0}, 0, 1);
    kernels::crop({none.cropped(), none.cropped()}, nullptr);
    none.expect_dense("no rows");
    EXPECT_EQ(traffic().read, before.read);
    EXPECT_EQ(traffic().stores, before.stores);
}

/// Returns the number of stores for a matrix.
uint64_t stores(int rows, int channels, Layout layout, int shift) {
    Matrix m(rows, channels, layout, shift, 1);
    const Traffic before = traffic();
    kernels::crop({m.cropped()}, nullptr);
    m.expect_dense("counted");
    EXPECT_EQ(traffic().written - before.written, m.dense.size() * sizeof(float));
    EXPECT_EQ(traffic().read - before.read, m.dense.size() * size_of(layout.type)) << "padding is not read";
    return traffic().stores - before.stores;
}

// 16 bytes are four floats. The rows of a first layer have three channels, stored as eight.
TEST(KernelCast, StoresSixteenBytesWhereTheTargetIsAligned) {
    for (const Layout& layout : layouts()) {
        SCOPED_TRACE(name_of(layout));
        const int aligned = 0;
        EXPECT_EQ(stores(700, 24, layout, aligned), 700u * 24 / 4);
        EXPECT_EQ(stores(64, 3, layout, aligned), 64u * 3 / 4);
        EXPECT_EQ(stores(5, 5, layout, aligned), 6u + 1) << "the last element is alone";
        EXPECT_EQ(stores(700, 24, layout, 4), 700u * 24 / 4) << "four floats further is aligned too";
        EXPECT_EQ(stores(700, 24, layout, 1), 700u * 24) << "not aligned";
    }
}

TEST(KernelCast, RefusesTargetsThatAreLargerThanTheirSource) {
    KernelTensor small({2, 1, 1, 3}, {});
    Floats dense(9);
    const kernels::Cropped good{small.tensor(), 2, 3, dense.data()};
    kernels::Cropped rows = good, channels = good;
    rows.rows = 3;
    channels.channels = 4;
    EXPECT_THROW(kernels::crop({good, rows}, nullptr), std::logic_error);
    EXPECT_THROW(kernels::crop({good, channels}, nullptr), std::logic_error);
}

}  // namespace
}  // namespace convoy::test
