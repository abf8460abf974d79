// convoy predict: what a training step will take on the machines of a cluster file, before a job is
// queued. Needs neither a GPU nor MPI.
#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/predict_options.h"
#include "model/models.h"
#include "report/cluster_file.h"
#include "report/measured_steps.h"
#include "report/prediction.h"

namespace convoy {
namespace {

/// With the images that it is measured on: a resnet has ImageNet's, as in published figures.
ModelOptions usual_model(const std::string& name) {
    const bool resnet = name.starts_with("resnet");
    ModelOptions m = usual_images(name, resnet ? Shape{1, 224, 224, 3} : Shape{1, 32, 32, 3});
    if (resnet) m.classes = 1000;
    return m;
}

ModelOptions model_of(const PredictOptions& o) {
    ModelOptions m = usual_model(o.model);
    if (o.images.h > 0) {
        m.h = o.images.h;
        m.w = o.images.w;
        m.c = o.images.c;
    }
    if (o.classes > 0) m.classes = int(o.classes);
    return m;
}

/// Sets the cluster's time of the model, or of another one, by multiply-adds.
void set_known_step(PredictedTable& t, const PredictOptions& o, const Graph& graph, const Cluster& cluster) {
    const KnownStep* best = nullptr;
    for (const KnownStep& s : cluster.steps) {
        if (!o.precision.empty() && s.precision != o.precision) continue;
        if (!best || (best->model != o.model && s.model == o.model)) best = &s;
    }
    if (!best)
        fail(Exit::usage, "the step's time on one rank is not known: " + cluster.name + " has no line 'step' " +
                              (o.precision.empty() ? "" : "of " + o.precision) +
                              "; give --step TIME, or --from the runs that measured it");
    const Graph other = build_model(usual_model(best->model));
    const double factor = graph.flops_per_image() / other.flops_per_image();
    t.precision = best->precision;
    t.notes.push_back(formatted("one rank's step was not given: %s of %s", best->model.c_str(), cluster.name.c_str()) +
                      (factor == 1 ? "'s cluster file is taken, which says whose it is"
                                   : formatted("'s cluster file is taken, by multiply-adds (x %.3g)", factor)));
    t.step.alone = {.fixed = best->fixed, .per_sample = best->per_sample * factor};
    t.step.ranks_of_times = best->ranks_per_node;
}

/// Sets what one rank takes, and the factors.
void set_step(PredictedTable& t, const PredictOptions& o, const Graph& graph, const Cluster& cluster) {
    std::vector<MeasuredStep> measured = o.steps;
    for (const std::string& path : o.from) {
        const std::vector<MeasuredStep> more = read_measured_steps(path, o.model);
        measured.insert(measured.end(), more.begin(), more.end());
    }
    if (measured.empty()) {
        t.step = usual_factors();
        return set_known_step(t, o, graph, cluster);
    }
    FittedStep fit = fit_step(measured, t.work, cluster);
    t.step = std::move(fit.model);
    t.notes = std::move(fit.assumed);
    t.precision = o.precision;
}

}  // namespace

int predict(const std::vector<std::string>& args) {
    const PredictOptions o = parse_predict(args);
    if (o.help) {
        std::fputs(o.text.c_str(), stdout);
        return 0;
    }
    const Cluster cluster = read_cluster(o.cluster);
    const std::vector<int> ranks = ranks_to_predict(o.ranks, cluster.ranks_per_node, cluster.nodes);
    const ModelOptions m = model_of(o);
    const Graph graph = build_model(m);
    PredictedTable t{
        .model = o.model,
        .image_size = formatted("%dx%dx%d", m.h, m.w, m.c),
        .cluster = cluster.name,
        .classes = m.classes,
        .batch = o.batch,
        .work = {.gradients = ready_gradients(graph),
                 .batch = o.batch,
                 .gradient_bytes = int(o.gradient_bytes),
                 .bucket_bytes = o.bucket_mib > 0 ? size_t(o.bucket_mib * (1 << 20)) : usual_bucket_bytes(cluster)}};
    set_step(t, o, graph, cluster);
    predict_cells(t, cluster, ranks);
    std::fputs(prediction_as(t, o.format).c_str(), stdout);
    if (o.explain) std::fputs(prediction_explained(t).c_str(), stdout);
    std::fflush(stdout);
    if (o.plot.empty()) return 0;
    return plot_cells(prediction_as(t, Format::json), o.plot);
}

}  // namespace convoy
