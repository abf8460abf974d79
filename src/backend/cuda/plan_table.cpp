#include "backend/cuda/plan_table.h"

#include <cudnn.h>

#include <algorithm>
#include <cstdio>

#include "backend/chips.h"
#include "backend/cuda/chips.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/device.h"
#include "backend/cuda_entry.h"
#include "backend/gpu/all_reduces.h"
#include "backend/gpu/precisions.h"

namespace convoy::cuda {
namespace {

std::string fallback_of(const PlanSpec& s) {
    if (s.is_norm()) return "kernels/batchnorm";
    if (s.normalise) return "the batch norm writes its output";
    if (s.statistics)
        return s.kind == PlanSpec::conv ? "the batch norm computes its sums"
                                        : "kernels/batchnorm_gradient computes the sums";
    return s.kind == PlanSpec::conv_data_gradient && s.add ? "data gradient, then kernels/elementwise" : "";
}

PlanRow row_of(const Cudnn& cudnn, const NamedPlan& plan, Driver driver) {
    PlanRow row;
    row.plan = plan;
    row.fallback = fallback_of(plan.spec);
    CudnnGraph graph(cudnn, plan.spec);
    row.candidates = graph.candidates();
    // Most fused graphs compile their kernels, so one candidate is enough to tell whether that
    // works.
    const bool compiled = plan.spec.is_norm() || plan.spec.add || plan.spec.statistics;
    std::string why;
    for (int i = 0; i < (compiled ? std::min(row.candidates, 1) : row.candidates); ++i)
        if ((driver == Driver::real || !graph.compiles(i)) && graph.build(i, why)) {
            row.state = PlanRow::built;
            row.engine = graph.name(i);
            row.workspace = graph.workspace(i);
            return row;
        }
    if (row.candidates == 0 || !compiled) return row;
    row.state = PlanRow::listed;
    row.engine = graph.name(0);
    return row;
}

std::string text_of(const GradientPairs& pairs, int multiprocessors) {
    std::string names;
    for (const std::string& name : pairs.side_by_side) names += (names.empty() ? ": " : ", ") + name;
    return "weight gradient and data gradient run side by side where " + std::to_string(multiprocessors) +
           " multiprocessors have room for both: in " + std::to_string(pairs.side_by_side.size()) + " of " +
           std::to_string(pairs.all) + " layers" + names + "\n";
}

}  // namespace

std::vector<PlanRow> plan_rows(const std::vector<NamedPlan>& plans, const std::string& chip) {
    if (const int capability = find_chip(chip).capability; !is_run_by(cudnnGetVersion(), CUDART_VERSION, capability))
        fail(Exit::usage, "--chip " + chip + " has compute capability " + capability_text(capability) +
                              ", for which cuDNN " + Cudnn::version() + " for CUDA " +
                              std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) +
                              " has no code; " + versions_for(capability));
    for (const NamedPlan& plan : plans)
        if (plan.spec.type == DType::f16)
            check_f16(Precision::f16, cudnnGetVersion(), find_chip(chip).capability, "--chip " + chip);
    const Driver driver = load_driver_or_stub();
    const Cudnn cudnn = Cudnn::of_chip(chip_description(chip));
    std::vector<PlanRow> rows;
    for (const NamedPlan& plan : plans) rows.push_back(row_of(cudnn, plan, driver));
    return rows;
}

std::string text_of(const std::vector<PlanRow>& rows) {
    constexpr const char* states[] = {"built", "listed", "no engine"};
    std::string text;
    char line[512];
    std::snprintf(line, sizeof line, "%-28s %4s  %-62s %7s  %-9s %9s  %s\n", "first op", "uses", "plan", "engines",
                  "state", "workspace", "chosen engine; fallback");
    text += line;
    for (const PlanRow& r : rows) {
        const std::string fallback = r.fallback.empty() ? "" : "; else " + r.fallback;
        std::snprintf(line, sizeof line, "%-28s %4d  %-62s %7d  %-9s %7.1f K  %s%s\n", r.plan.name.c_str(), r.plan.uses,
                      r.plan.spec.key().c_str(), r.candidates, states[r.state], double(r.workspace) / 1024,
                      r.engine.c_str(), fallback.c_str());
        text += line;
    }
    return text;
}

std::string plan_table(const Graph& graph, const StepSpec& step, const std::string& chip) {
    const int all = find_chip(chip).multiprocessors, limit = beside_all_reduces(all);
    const int left = step.ranks == 1 ? all : limit;
    const AlgorithmOptions options{.precision = step.precision,
                                   .norm_by = step.norm_by,
                                   .synchronised = step.sync_bn && step.ranks > 1,
                                   .norm_multiprocessors = step.ranks > 1 ? limit : 0,
                                   .multiprocessors = step.one_stream ? 0 : left};
    const std::vector<NamedPlan> plans = plans_of(graph, step.batch, options);
    const bool alone = step.ranks == 1 && std::any_of(plans.begin(), plans.end(), [](const NamedPlan& p) {
                           return p.spec.kind == PlanSpec::norm_gradient;
                       });
    const std::string pairs = step.one_stream ? "" : text_of(gradient_pairs(graph, step.batch, options), left);
    return text_of(plan_rows(plans, chip)) + pairs +
           (alone ? "on several ranks, plans of batch norms' gradients use only " + std::to_string(limit) +
                        " multiprocessors: NCCL's all-reduces take the others\n"
                  : "");
}

}  // namespace convoy::cuda
