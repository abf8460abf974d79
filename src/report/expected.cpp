#include "report/expected.h"

#include <algorithm>
#include <cstdio>

#include "report/measured_steps.h"

namespace convoy {
namespace {

/// Returns the cluster with the number of ranks per node that a run had.
Cluster as_run(Cluster cluster, int64_t nodes, int64_t ranks) {
    cluster.ranks_per_node = int((ranks + nodes - 1) / std::max<int64_t>(1, nodes));
    return cluster;
}

/// Returns the gradients of a table's model; empty if its images are not known.
std::vector<ReadyGradient> gradients_of(const ScalingRun& r) {
    ModelOptions m{.name = r.model, .classes = int(r.classes), .stem = r.stem.empty() ? "auto" : r.stem};
    if (!could_be(r.image_size, r.classes)) return {};
    if (std::sscanf(r.image_size.c_str(), "%dx%dx%d", &m.h, &m.w, &m.c) != 3 || m.classes < 1) return {};
    return ready_gradients(build_model(m));
}

bool measured(const ScalingCell& c) { return c.run.source == "Convoy" && c.run.samples_per_second > 0; }

using Cells = std::vector<ScalingCell>::iterator;

/// Sets the expectations of the cells [first, last) of one table.
void add_expected(Cells first, Cells last, const Cluster& cluster) {
    const auto base = std::find_if(first, last, measured);  // has the fewest ranks, because cells are sorted by ranks
    if (base == last) return;
    StepWork work{.gradients = gradients_of(base->run), .batch = base->run.batch};
    if (work.gradients.empty() || !knows_sums(cluster, base->run.device, int(base->run.nodes))) return;
    const MeasuredStep step{.nodes = int(base->run.nodes),
                            .ranks = int(base->run.ranks),
                            .batch = base->run.batch,
                            .seconds = double(base->run.batch * base->run.ranks) / base->run.samples_per_second};
    const StepModel model = fit_step({step}, work, as_run(cluster, step.nodes, step.ranks)).model;
    for (Cells c = base; ++c != last;) {
        if (!measured(*c) || !knows_sums(cluster, c->run.device, int(c->run.nodes))) continue;
        const StepPrediction p =
            predict_step(model, work, as_run(cluster, c->run.nodes, c->run.ranks), int(c->run.ranks));
        c->expected = p.images_per_second;
        c->limit = name_of(p.limit);
    }
}

}  // namespace

ModelOptions usual_model(const std::string& name) {
    const bool resnet = name.starts_with("resnet");
    ModelOptions m = usual_images(name, resnet ? Shape{1, 224, 224, 3} : Shape{1, 32, 32, 3});
    if (resnet) m.classes = 1000;
    return m;
}

StepModel model_of_known_step(const KnownStep& known, double flops_per_image) {
    StepModel model = usual_factors();
    const double factor = flops_per_image / build_model(usual_model(known.model)).flops_per_image();
    model.alone = {.fixed = known.fixed, .per_sample = known.per_sample * factor};
    model.ranks_of_times = known.ranks_per_node;
    return model;
}

bool knows_sums(const Cluster& c, const std::string& device_kind, int nodes) {
    return (device_kind != "cpu" || !c.all_reduces.empty()) && (nodes < 2 || c.network_bandwidth() > 0);
}

StepPrediction expected_step(const RunOnCluster& run, const Cluster& cluster) {
    StepModel model = usual_factors();
    model.alone.measured[run.batch] = run.compute_seconds;
    const Cluster as_ran = as_run(cluster, run.nodes, run.ranks);
    model.ranks_of_times = as_ran.ranks_per_node;  // the measured time includes the slowdowns h and kappa
    model.interference.value = 0;
    const StepWork work{
        .gradients = ready_gradients(build_model(run.model)), .batch = run.batch, .bucket_bytes = run.bucket_bytes};
    return predict_step(model, work, as_ran, run.ranks);
}

void add_expected(std::vector<ScalingCell>& cells, const Cluster& cluster) {
    for (auto first = cells.begin(); first != cells.end();) {
        const auto last =
            std::find_if(first, cells.end(), [&](const ScalingCell& c) { return !same_table(c.run, first->run); });
        add_expected(first, last, cluster);
        first = last;
    }
}

}  // namespace convoy
