// Replaces winograd.cpp for clang, which cannot compile one part of a file for AVX-512. All
// convolutions then run in oneDNN.
#include "backend/cpu/winograd.h"

namespace convoy::cpu {
namespace {

void absent() { require(false, "a convolution runs by Winograd only where that suits it"); }

}  // namespace

bool Winograd::suits(int, int, int, int) { return false; }
size_t Winograd::workspace_bytes() const { return 0; }
template <class E> void Winograd::forward(const E*, const float*, E*, void*) const { absent(); }
template <class E> void Winograd::data_gradient(const E*, const float*, E*, bool, void*) const { absent(); }
template <class E> void Winograd::weight_gradient(const E*, const E*, float*, void*) const { absent(); }

template void Winograd::forward(const float*, const float*, float*, void*) const;
template void Winograd::forward(const bf16*, const float*, bf16*, void*) const;
template void Winograd::data_gradient(const float*, const float*, float*, bool, void*) const;
template void Winograd::data_gradient(const bf16*, const float*, bf16*, bool, void*) const;
template void Winograd::weight_gradient(const float*, const float*, float*, void*) const;
template void Winograd::weight_gradient(const bf16*, const bf16*, float*, void*) const;

}  // namespace convoy::cpu
