// GELU and its derivative without calls or branches, so that compilers vectorise them. The
// library's erff and expf (kernels/activation.cuh) take one element at a time and cost more than a
// convolution. Both versions agree to a few units in a float's last place.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace convoy::cpu {

/// Returns erf(x) to 4e-7: x P(x^2) / Q(x^2), fitted on [-4, 4] to the least relative error. Beyond
/// that, erf is 1 in float. A NaN stays NaN.
inline float erf(float x) {
    x = std::max(std::min(x, 4.0f), -4.0f);
    const float s = x * x;
    float p = 1.91110363e-08f;
    p = p * s + -1.94232962e-06f;
    p = p * s + 0.000147288316f;
    p = p * s + 0.00399063015f;
    p = p * s + 0.0515250489f;
    p = p * s + 0.207126498f;
    p = p * s + 1.12837911f;
    float q = 0.00102112815f;
    q = q * s + 0.0149581796f;
    q = q * s + 0.117971264f;
    q = q * s + 0.516892314f;
    q = q * s + 1.0f;
    return std::max(std::min(x * p / q, 1.0f), -1.0f);
}

/// Returns exp(x) for x <= 0 as 2^n exp(r), with |r| <= ln(2) / 2. The exponent's bits give 2^n, a
/// Taylor polynomial gives exp(r). Zero below -87.
inline float exp_of_negative(float to) {
    const float x = std::max(to, -87.0f);
    constexpr float round = 12582912;  // 1.5 * 2^23: adding it leaves an integer in the low bits
    const float shifted = x * 1.44269504f + round, n = shifted - round;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln(2) in two parts; n times the first is exact
    float e = 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    return to < -87 ? 0.0f
                    : e * std::bit_cast<float>((std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(round) + 127)
                                               << 23);
}

inline float gelu(float z) { return 0.5f * z * (1 + erf(z * 0.70710678f)); }

/// Returns Phi(z) + z phi(z), where Phi is the normal distribution and phi its density.
inline float gelu_derivative(float z) {
    return 0.5f * (1 + erf(z * 0.70710678f)) + z * 0.39894228f * exp_of_negative(-0.5f * z * z);
}

}  // namespace convoy::cpu
