#include "backend/cpu/conv_algorithms.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "backend/cpu/winograd.h"

namespace convoy::cpu {
namespace {

constexpr std::pair<ConvBy, const char*> names[] = {
    {ConvBy::measured, "measured"},       {ConvBy::direct, "direct"},
    {ConvBy::winograd, "winograd"},       {ConvBy::winograd_large, "winograd-large"},
    {ConvBy::direct_bf16, "direct-bf16"}, {ConvBy::gemm, "product"},
    {ConvBy::gemm_bf16, "product-bf16"}};

const char* name_of_direction(LaunchPhase direction) {
    if (direction == LaunchPhase::forward) return "forward";
    return direction == LaunchPhase::data_gradient ? "data-gradient" : "weight-gradient";
}

int representative_channels(int c) {
    constexpr int vector = 16, below = 5;
    if (c < vector || c % vector == 0) return c;
    return (c + vector - 1) / vector * vector - below;
}

bool has_patches_of_a_pixel(const ConvSpec& s) { return s.op.kernel == 1 && s.op.stride == 1 && s.op.pad == 0; }

/// Returns false for patches larger than the weights: writing them costs more than the GEMM saves,
/// and takes memory.
bool has_few_patches(const ConvSpec& s) {
    const size_t k = size_t(s.op.kernel) * s.op.kernel * s.x.c;
    return s.op.kernel == 1 || s.y.pixels() * k <= k * s.y.c;
}

bool can_winograd(const ConvSpec& s, const Capabilities& has) {
    return has.avx512 && s.op.kernel == 3 && s.op.stride == 1 && s.op.pad == 1 &&
           Winograd::suits(s.x.h, s.x.w, s.x.c, s.y.c);
}

bool suits_large_tiles(const ConvSpec& s) {
    const int tile = Winograd::large_tile(s.x.h, s.x.w);
    return Winograd::multiplications(s.x.h, s.x.w, tile) < Winograd::multiplications(s.x.h, s.x.w);
}

bool can(ConvBy by, const ConvSpec& s, const Capabilities& has) {
    const bool biased = s.direction == LaunchPhase::forward && s.op.bias != none;
    const bool bf16 = s.dtype == DType::bf16 && has.bf16;
    switch (by) {
        case ConvBy::measured: return false;
        case ConvBy::direct: return true;
        case ConvBy::direct_bf16: return bf16;
        case ConvBy::winograd: return !biased && can_winograd(s, has);
        // Its error exceeds what f32 tolerates, but is far below that of weights rounded to bf16.
        case ConvBy::winograd_large:
            return s.dtype == DType::bf16 && !biased && can_winograd(s, has) && suits_large_tiles(s);
        case ConvBy::gemm: return !biased && has_few_patches(s);
        case ConvBy::gemm_bf16: return bf16 && !biased && has_patches_of_a_pixel(s);
    }
    return false;
}

}  // namespace

const char* name_of(ConvBy by) {
    return std::find_if(std::begin(names), std::end(names), [&](const auto& n) { return n.first == by; })->second;
}

std::optional<ConvBy> parse_conv_by(const std::string& name) {
    for (const auto& [by, known] : names)
        if (name == known) return by;
    return {};
}

ConvSpec ConvSpec::representative() const {
    ConvSpec s = *this;
    s.x.c = representative_channels(x.c);
    s.y.c = representative_channels(y.c);
    return s;
}

std::string ConvSpec::key() const {
    const ConvSpec r = representative();
    std::ostringstream out;
    out << convoy::name_of(dtype) << ' ' << op.kernel << 'x' << op.kernel << " stride" << op.stride << " pad" << op.pad
        << ' ' << r.x.h << 'x' << r.x.w << 'x' << r.x.c << " to " << r.y.c;
    if (op.bias != none) out << " bias";
    out << ' ' << name_of_direction(direction) << (add ? "+" : "") << " threads" << threads;
    return out.str();
}

double ConvSpec::flops() const { return 2.0 * double(y.count()) * op.kernel * op.kernel * x.c; }

int ConvSpec::images(double work) const {
    constexpr double bytes = 64 << 20;
    const double of_image = double(size_of(dtype)) * double(x.count() + y.count());
    return int(std::clamp(std::min(work / flops(), bytes / of_image), 1.0, 1024.0));
}

double trial_flops(size_t specs, int threads) {
    constexpr double all_of_a_thread = 24e9, most = 2e9, least = 0.5e9;
    return std::clamp(all_of_a_thread * threads / double(specs), least, most);
}

std::vector<ConvBy> candidates(const ConvSpec& s, const Capabilities& has) {
    std::vector<ConvBy> order = {ConvBy::winograd_large, ConvBy::winograd,    ConvBy::direct,
                                 ConvBy::gemm,           ConvBy::direct_bf16, ConvBy::gemm_bf16};
    if (has.amx) std::rotate(order.begin(), order.end() - 2, order.end());  // bf16 first if there is AMX
    std::erase_if(order, [&](ConvBy by) { return !can(by, s, has); });
    return order;
}

ConvBy choose(const std::vector<ConvBy>& candidates, const ConvTimes& times) {
    constexpr double clearly = 1 - 1.0 / 30;
    ConvBy best = candidates.front();
    double to_beat = INFINITY;
    for (const ConvBy by : candidates)
        if (const auto t = times.find(by); t != times.end() && t->second < to_beat) {
            best = by;
            to_beat = clearly * t->second;
        }
    return best;
}

std::string text_of(const TunedConvs& tuned) {
    std::ostringstream out;
    for (const auto& [key, times] : tuned) {
        std::vector<std::pair<double, ConvBy>> sorted;
        for (const auto& [by, seconds] : times) sorted.emplace_back(seconds, by);
        std::sort(sorted.begin(), sorted.end());
        out << key << " =";
        for (const auto& [seconds, by] : sorted) out << ' ' << name_of(by) << ' ' << seconds * 1e6;
        out << '\n';
    }
    return out.str();
}

TunedConvs parse_tuned_convs(const std::string& text) {
    TunedConvs tuned;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t equals = line.find(" =");
        if (equals == std::string::npos) continue;
        ConvTimes& times = tuned[line.substr(0, equals)] = {};
        std::istringstream rest(line.substr(equals + 2));
        std::string name;
        for (double microseconds; rest >> name >> microseconds;)
            if (const auto by = parse_conv_by(name)) times[*by] = microseconds * 1e-6;
    }
    return tuned;
}

std::vector<ConvUse> uses_of(const ProgramShape& o, int threads) {
    std::vector<ConvUse> uses;
    for (size_t i = 0; i < o.graph.ops.size(); ++i) {
        const auto* op = std::get_if<Conv>(&o.graph.ops[i]);
        if (!op) continue;
        const Value& x = o.graph.values[op->x];
        ConvSpec s{.direction = LaunchPhase::forward,
                   .op = *op,
                   .x = x.batched(1),
                   .y = o.graph.values[op->y].batched(1),
                   .dtype = x.dtype,
                   .add = false,
                   .threads = threads};
        uses.push_back({int(i), s});
        if (!o.training) continue;
        s.direction = LaunchPhase::weight_gradient;
        if (!o.graph.params[op->weight].frozen) uses.push_back({int(i), s});
        if (!o.gradients.wanted[op->x]) continue;
        s.direction = LaunchPhase::data_gradient;
        s.add = o.gradients.accumulate[i][op->x];
        uses.push_back({int(i), s});
    }
    return uses;
}

std::vector<CpuAlgorithms::ConvAlgorithm> select_convs(const ProgramShape& o, int threads, const Capabilities& has,
                                                       ConvBy forced, const TunedConvs& tuned) {
    std::vector<CpuAlgorithms::ConvAlgorithm> algorithms(o.graph.ops.size());
    for (const ConvUse& use : uses_of(o, threads)) {
        const std::vector<ConvBy> able = candidates(use.spec, has);
        const auto known = tuned.find(use.spec.key());
        CpuAlgorithms::ConvAlgorithm& algorithm = algorithms[use.op];
        algorithm.h = use.spec.x.h;
        algorithm.w = use.spec.x.w;
        if (forced == ConvBy::measured)
            algorithm.in(use.spec.direction) = choose(able, known == tuned.end() ? ConvTimes{} : known->second);
        else if (std::find(able.begin(), able.end(), forced) != able.end())
            algorithm.in(use.spec.direction) = forced;
    }
    return algorithms;
}

Multiplications CpuAlgorithms::multiplications(int op, LaunchPhase direction) const {
    ConvAlgorithm algorithm = convs[op];
    const ConvBy by = algorithm.in(direction);
    double of_direct = 1;
    if (by == ConvBy::winograd) of_direct = Winograd::multiplications(algorithm.h, algorithm.w);
    if (by == ConvBy::winograd_large)
        of_direct = Winograd::multiplications(algorithm.h, algorithm.w, Winograd::large_tile(algorithm.h, algorithm.w));
    return {of_direct, by != ConvBy::direct_bf16 && by != ConvBy::gemm_bf16};
}

}  // namespace convoy::cpu
