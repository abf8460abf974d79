// Which precisions a GPU computes in.
#include "backend/gpu/precisions.h"

#include <gtest/gtest.h>

#include "backend/chips.h"
#include "tests/unit/usage_message.h"

namespace convoy::test {
namespace {

constexpr Precision precisions[] = {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16};

TEST(Precisions, Bf16AndTf32BeginWithCapabilityEight) {
    for (const Precision p : precisions)
        for (const int capability : {60, 61, 70, 72, 75, 80, 86, 87, 89, 90, 100, 120}) {
            const bool late = p == Precision::bf16 || p == Precision::tf32;
            EXPECT_EQ(cuda::computes_in(p, capability), !late || capability >= 80) << name_of(p) << " " << capability;
            EXPECT_EQ(message_of([&] { cuda::check_precision(p, capability, "the GPU"); }).empty(),
                      cuda::computes_in(p, capability));
        }
}

TEST(Precisions, TheRefusalIsOneLineWithAnotherChoice) {
    EXPECT_EQ(message_of([] { cuda::check_precision(Precision::bf16, 70, "--chip v100"); }),
              "--precision bf16: --chip v100 has compute capability 7.0, and bf16 needs 8.0; choose f32 or f16");
    EXPECT_NE(message_of([] {
                  cuda::check_precision(Precision::tf32, 61, "the Tesla P40 of rank 3");
              }).find("the Tesla P40 of rank 3 has compute capability 6.1, and tf32"),
              std::string::npos);
}

// The default of `info --plans`.
TEST(Precisions, TheUsualOneIsTheBestThatAGpuHas) {
    for (const Chip& c : known_chips) {
        const Precision usual = cuda::usual_precision(c.capability);
        EXPECT_TRUE(cuda::computes_in(usual, c.capability)) << c.name;
        EXPECT_EQ(usual == Precision::f32, std::string(c.name).starts_with("p")) << c.name;
        EXPECT_EQ(usual == Precision::bf16, c.capability >= 80) << c.name;
    }
}

}  // namespace
}  // namespace convoy::test
