// Which way each convolution takes on a CPU, in each direction: the fastest that was measured
// (conv_trial.h) of those that compute it within the precision's tolerance. Nothing here measures
// or needs oneDNN, so tests decide from times that they make up. A choice does not depend on the
// batch, so that its parts on other ranks are computed alike.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/conv_by.h"

namespace convoy::cpu {

/// What the processor has, and oneDNN may use.
struct Capabilities {
    bool avx512 = false;  ///< and the compiler can Winograd: see winograd_absent.cpp
    bool bf16 = false;    ///< products of bf16: AVX-512 bf16 or AMX
    bool amx = false;     ///< in bf16
};
Capabilities capabilities();  // in cpu_backend.cpp

/// The name that options and the file of choices have for it: "direct-bf16".
const char* name_of(ConvBy);
std::optional<ConvBy> parse_conv_by(const std::string& name);

/// A convolution in one direction, of any batch.
struct ConvSpec {
    StepPhase direction;  ///< forward, data_gradient or weight_gradient
    Conv op;              ///< kernel, stride, pad; bias: not none if there is one
    Shape x, y;           ///< of one image
    DType dtype;          ///< of x and y
    bool add;             ///< data_gradient: adds to what is there
    int threads;

    /// What is measured in its place: channels rounded up to a multiple of 16, or to the odd number
    /// five below one, so that a network whose every layer has other channels is measured in
    /// seconds. It is a line's key in the file of choices.
    ConvSpec representative() const;
    std::string key() const;
    double flops() const;            ///< of one image
    int images(double flops) const;  ///< that take about so many, in at most 64 MiB
};
/// With which each of so many specs is measured: few more exactly than many. Much work, because
/// Winograd transforms weights once a batch, and few images would hide what many gain by it; so
/// much in all that a thread is done in a few seconds.
double trial_flops(size_t specs, int threads);

/// The ways that can, in the order in which they are taken where nothing was measured.
std::vector<ConvBy> candidates(const ConvSpec&, const Capabilities&);

/// What was measured of a spec, by way: seconds.
using ConvTimes = std::map<ConvBy, double>;
/// By key. No times: there was none left to measure it.
using ConvChoices = std::map<std::string, ConvTimes>;
/// The fastest, where it is faster than all before it by a thirtieth; if there are no times, the
/// first candidate. So noise seldom decides.
ConvBy choose(const std::vector<ConvBy>& candidates, const ConvTimes&);

/// One line a key: "KEY = WAY MICROSECONDS ...", the fastest first.
std::string text_of(const ConvChoices&);
/// Lines that say something else are left out; of a key the last one counts.
ConvChoices parse_conv_choices(const std::string& text);

/// A convolution of a program in one of the directions that it computes, and its op.
struct ConvUse {
    int op;
    ConvSpec spec;
};
std::vector<ConvUse> uses_of(const Outline&, int threads);

struct CpuWays final : Ways {
    struct Way {
        ConvBy forward = ConvBy::direct, data_gradient = ConvBy::direct, weight_gradient = ConvBy::direct;
        int h = 0, w = 0;  ///< of an image
        ConvBy& in(StepPhase direction) {
            return direction == StepPhase::forward         ? forward
                   : direction == StepPhase::data_gradient ? data_gradient
                                                           : weight_gradient;
        }
    };
    std::vector<Way> convs;  ///< by op

    ConvBy of(const ConvUse& use) const {
        Way way = convs[size_t(use.op)];
        return way.in(use.spec.direction);
    }
    Products products(int op, StepPhase direction) const override;
};

/// The ways of all convolutions: `forced` where that can, else by what was measured.
std::vector<CpuWays::Way> decide_convs(const Outline&, int threads, const Capabilities&, ConvBy forced,
                                       const ConvChoices&);

}  // namespace convoy::cpu
