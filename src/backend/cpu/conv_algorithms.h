// Chooses the algorithm of each convolution on a CPU, in each direction: the fastest measured one
// (conv_trial.h) within the precision's tolerance. Nothing here measures or needs oneDNN, so tests
// choose from made-up times. The selection does not depend on the batch size, so that all ranks
// compute their parts of a batch alike.
//
// Example: the forward of a 3x3 convolution of 8x8 images from 64 to 64 channels, in f32, with 2
// threads and AVX-512. The program has 20 convolutions to measure.
//
// 1. The key is "f32 3x3 stride1 pad1 8x8x64 to 64 forward threads2". In keys, 59 channels stand
//    for 49 to 63, so a convolution from 49 to 54 channels would have "8x8x59 to 59".
// 2. candidates() are, in this order: winograd, direct, product (a GEMM).
// 3. trial_flops() is 24e9 * 2 threads / 20 = 2.4e9, which is limited to 2e9. An image has
//    2 * 8*8*64 * 3*3*64 = 4,718,592 FLOPs, so a trial has a batch of 423.
// 4. Suppose that the times are 1.00 ms, 0.97 ms and 1.40 ms. direct is not faster than winograd
//    by a thirtieth (0.967 ms), so choose() returns winograd. With 0.96 ms it would return direct.
// 5. The tuning file gets the line "KEY = direct 970 winograd 1000 product 1400". The next run
//    reads it instead of measuring, and so selects winograd again.
//
// The two gradients have separate keys and times, and may get other algorithms.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "ops/conv_by.h"

namespace convoy::cpu {

/// Features that the processor has and oneDNN may use.
struct Capabilities {
    bool avx512 = false;  ///< has AVX-512; Winograd also needs a compiler for it (winograd_absent.cpp)
    bool bf16 = false;    ///< GEMMs in bf16: AVX-512 bf16 or AMX
    bool amx = false;     ///< AMX in bf16
};
Capabilities capabilities();  // in cpu_backend.cpp

/// Returns the algorithm's name in options and in the tuning file: "direct-bf16".
const char* name_of(ConvBy);
std::optional<ConvBy> parse_conv_by(const std::string& name);

/// A convolution in one direction, for any batch size.
struct ConvSpec {
    LaunchPhase direction;  ///< forward, data_gradient or weight_gradient
    Conv op;                ///< only kernel, stride, pad and whether there is a bias count
    Shape x, y;             ///< for a batch of 1
    DType dtype;            ///< type of x and y
    bool add;               ///< data_gradient: adds to its output
    int threads;

    /// Returns the convolution that is measured in place of this one. Channel counts below 16 and
    /// multiples of 16 stay; others become 5 less than the next multiple (an odd number). So
    /// networks in which every layer has different channels are measured in seconds. key() names it
    /// in the tuning file.
    ConvSpec representative() const;
    std::string key() const;
    double flops() const;            ///< per image
    int images(double flops) const;  ///< batch size that takes about `flops`, at most 64 MiB and 1,024 images
};
/// Returns the FLOPs of each timed run of one of `specs` convolutions; fewer when there are many,
/// but at least 0.5e9. Winograd transforms weights once per batch, so small batches would hide its
/// gain. The runs of all convolutions together take a few seconds.
double trial_flops(size_t specs, int threads);

/// Returns the algorithms that apply, in the order of preference without measurements.
std::vector<ConvBy> candidates(const ConvSpec&, const Capabilities&);

/// Measured seconds of one ConvSpec, per algorithm.
using ConvTimes = std::map<ConvBy, double>;
/// Measured times by ConvSpec::key(). Empty times: it was not measured, so its first candidate is
/// used.
using TunedConvs = std::map<std::string, ConvTimes>;
/// Returns the fastest algorithm, but prefers an earlier candidate unless a later one is faster by
/// more than a thirtieth. So noise seldom decides. Without times returns the first candidate.
ConvBy choose(const std::vector<ConvBy>& candidates, const ConvTimes&);

/// Formats one line per key: "KEY = ALGORITHM MICROSECONDS ...", fastest first.
std::string text_of(const TunedConvs&);
/// Parses these lines and ignores others. If a key occurs twice, its last line counts.
TunedConvs parse_tuned_convs(const std::string& text);

/// One direction of a convolution that a program computes.
struct ConvUse {
    int op;
    ConvSpec spec;
};
std::vector<ConvUse> uses_of(const ProgramShape&, int threads);

struct CpuAlgorithms final : Algorithms {
    struct ConvAlgorithm {
        ConvBy forward = ConvBy::direct, data_gradient = ConvBy::direct, weight_gradient = ConvBy::direct;
        int h = 0, w = 0;  ///< size of the convolution's input
        ConvBy& in(LaunchPhase direction) {
            return direction == LaunchPhase::forward         ? forward
                   : direction == LaunchPhase::data_gradient ? data_gradient
                                                             : weight_gradient;
        }
    };
    std::vector<ConvAlgorithm> convs;  ///< per op

    ConvBy of(const ConvUse& use) const {
        ConvAlgorithm algorithm = convs[use.op];
        return algorithm.in(use.spec.direction);
    }
    Multiplications multiplications(int op, LaunchPhase direction) const override;
};

/// Chooses the algorithms of all convolutions. With ConvBy::measured, measured times decide. Any
/// other `forced` is used where it applies, and oneDNN's direct convolution elsewhere.
std::vector<CpuAlgorithms::ConvAlgorithm> select_convs(const ProgramShape&, int threads, const Capabilities&,
                                                       ConvBy forced, const TunedConvs&);

}  // namespace convoy::cpu
