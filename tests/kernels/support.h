// Helpers for tests of kernels: tensors in the form that kernels take, and the layouts of tensors
// in memory. Kernels run on the host (tests/kernels/fibers), so memory is exactly as large as its
// tensor, and the address sanitizer finds every access beyond it.
#pragma once
#include "tests/kernels/fibers/cuda_on_host.h"  // must come first: it changes CUDA's headers

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/ops/op_harness.h"

namespace convoy::test {

/// Layout of a tensor in memory: element type, channels rounded up to a multiple, elements between
/// a 16-byte boundary and the data.
struct Layout {
    DType type = DType::f32;
    int multiple = 1;
    int shift = 0;
    int stored(int channels) const { return (channels + multiple - 1) / multiple * multiple; }
};
/// Returns every type on the fast path (padded to 8, aligned) and off it: odd channels without
/// padding, or padded but not aligned.
const std::vector<Layout>& layouts();
std::string name_of(const Layout&);

/// Returns normal draws for all elements of an arena; its padding is zero.
Floats values_of(const std::vector<kernels::Segment>&, size_t count, uint64_t seed);

/// Returns the largest relative error of storing a number: half a unit of the last place.
double rounding(DType);
Floats rounded(Floats, DType);

class KernelTensor {
public:
    /// Fills every element with NaN, including padding.
    KernelTensor(Shape, Layout);
    KernelTensor(Shape shape, Layout layout, const Floats& dense) : KernelTensor(shape, layout) { put(dense); }
    KernelTensor(KernelTensor&&) = default;           // the bytes stay where they are
    const Tensor& tensor() const { return tensor_; }  ///< has the stored channels
    void put(const Floats&);                          ///< dense values; padding becomes zero
    Floats get() const;                               ///< dense values
    bool padding_is_zero() const;

private:
    float element(size_t) const;
    std::vector<unsigned char> bytes_;
    Tensor tensor_;
    int channels_ = 0;
};

/// Runs `body` with threads in each order. Returns its result, which must not depend on the order.
std::vector<Floats> in_every_order(const std::function<std::vector<Floats>()>& body);

double length(const Floats&);                       ///< L2 norm
double distance(const Floats& a, const Floats& b);  ///< L2; infinite if anything is NaN

}  // namespace convoy::test
