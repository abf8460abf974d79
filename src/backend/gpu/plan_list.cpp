#include "backend/gpu/plan_list.h"

#include <algorithm>
#include <map>
#include <set>

namespace convoy::cuda {
namespace {

std::string title_of(const Graph& graph, size_t op) {
    const std::string& param = graph.params[params_of(graph.ops[op]).front()].name;
    return param.substr(0, param.rfind('.'));
}

/// Returns the plans that would be considered for each op if all times were equal.
std::vector<std::vector<PlanSpec>> considered(const Graph& graph, int batch, AlgorithmOptions options, NormBy norm_by) {
    if (options.norm_by == NormBy::measured) options.norm_by = norm_by;
    const GradientFlow flow = gradient_flow(graph);
    const Timing any{[](const PlanSpec&) { return 1.0f; }, [](const KernelSpec&) { return 1.0f; }};
    return select_algorithms({graph, batch, true, flow}, options, any).considered;
}

}  // namespace

std::vector<PlanSpec> expected_plans(const ProgramShape& program, const AlgorithmOptions& options,
                                     const KnownTimes& known) {
    std::vector<PlanSpec> expected;
    std::set<std::string> keys;
    // Selects twice: as if each plan of unknown time were the fastest choice, then the slowest. If
    // times are equal, the fused plan wins.
    for (const float time : {0.0f, untimed}) {
        const auto of_plan = [&](const PlanSpec& s) {
            const std::string key = s.key();
            if (const std::optional<float> t = known(key)) return *t;
            if (keys.insert(key).second) expected.push_back(s);
            return time;
        };
        select_algorithms(program, options,
                          {of_plan, [&](const KernelSpec& s) { return known(s.key()).value_or(0.0f); }});
    }
    return expected;
}

std::vector<NamedPlan> plans_of(const Graph& graph, int batch, const AlgorithmOptions& options) {
    const auto fused = considered(graph, batch, options, NormBy::convolutions),
               apart = considered(graph, batch, options, NormBy::plans);
    std::vector<NamedPlan> plans;
    for (size_t op = 0; op < graph.ops.size(); ++op) {
        std::map<std::string, PlanSpec> of_op;
        for (const auto* some : {&fused, &apart})
            for (const PlanSpec& spec : (*some)[op]) of_op.emplace(spec.key(), spec);
        for (const auto& [key, spec] : of_op) {
            const auto same = std::find_if(plans.begin(), plans.end(),
                                           [&, &k = key](const NamedPlan& p) { return p.spec.key() == k; });
            if (same == plans.end())
                plans.push_back({title_of(graph, op), spec});
            else
                ++same->uses;
        }
    }
    return plans;
}

std::vector<PlanSpec> first_of_families(const std::vector<NamedPlan>& plans, size_t most) {
    std::vector<std::vector<PlanSpec>> families;
    for (const NamedPlan& plan : plans) {
        const auto same = std::find_if(families.begin(), families.end(), [&](const std::vector<PlanSpec>& family) {
            return family[0].family() == plan.spec.family();
        });
        if (same == families.end())
            families.push_back({plan.spec});
        else if (same->size() < most)
            same->push_back(plan.spec);
    }
    std::vector<PlanSpec> all;
    for (const std::vector<PlanSpec>& family : families) all.insert(all.end(), family.begin(), family.end());
    return all;
}

GradientPairs gradient_pairs(const Graph& graph, int batch, const AlgorithmOptions& options) {
    const GradientFlow flow = gradient_flow(graph);
    const GpuAlgorithms algorithms = select_unmeasured({graph, batch, true, flow}, options);
    GradientPairs pairs;
    for (size_t op = 0; op < graph.ops.size(); ++op) {
        const GemmAlgorithm& p = algorithms.per_op[op].gemm;
        pairs.all += p.weight_gradient && p.data_gradient;
        if (p.side_by_side) pairs.side_by_side.push_back(title_of(graph, op));
    }
    return pairs;
}

}  // namespace convoy::cuda
