// convoy predict: predicts the time of a training step on the machines of a cluster file, before a
// job is queued. Needs neither a GPU nor MPI.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/predict_options.h"
#include "cli/reframe_references.h"
#include "model/models.h"
#include "report/cluster_file.h"
#include "report/expected.h"
#include "report/measured_steps.h"
#include "report/prediction.h"

namespace convoy {
namespace {

/// Sets `known` to `found`, the value in a file, unless that is empty. Throws Exit::usage if
/// `known` already has another value.
void set_or_compare(std::string& known, const std::string& found, const char* what, const std::string& path) {
    if (found.empty() || found == known) return;
    if (!known.empty())
        fail(Exit::usage, path + ": measured " + what + " " + found + ", but the options or earlier files say " +
                              known + "; give runs of one kind");
    known = found;
}

/// Returns the measurements of --step and of all --from, with the properties that the options give.
MeasuredFile measured_of(const PredictOptions& o) {
    MeasuredFile all{.steps = o.steps, .precision = o.precision};
    if (o.images.h > 0) all.image_size = formatted("%dx%dx%d", o.images.h, o.images.w, o.images.c);
    std::string classes = o.classes > 0 ? std::to_string(o.classes) : "";
    for (const std::string& path : o.from) {
        const MeasuredFile file = read_measured_steps(path, o.model);
        all.steps.insert(all.steps.end(), file.steps.begin(), file.steps.end());
        set_or_compare(all.precision, file.precision, "precision", path);
        set_or_compare(all.image_size, file.image_size, "images of", path);
        set_or_compare(all.device, file.device, "a", path);
        set_or_compare(classes, file.classes > 0 ? std::to_string(file.classes) : "", "classes:", path);
    }
    if (!classes.empty()) all.classes = std::stoll(classes);
    return all;
}

ModelOptions model_of(const std::string& name, const MeasuredFile& measured) {
    ModelOptions m = usual_model(name);
    if (!measured.image_size.empty()) std::sscanf(measured.image_size.c_str(), "%dx%dx%d", &m.h, &m.w, &m.c);
    if (measured.classes > 0) m.classes = int(measured.classes);
    return m;
}

/// Returns the first step of the file in the wanted precision; prefers one of the same model.
const KnownStep& known_step(const Cluster& cluster, const PredictOptions& o) {
    const KnownStep* best = nullptr;
    std::string others;
    for (const KnownStep& s : cluster.steps) {
        others += (others.empty() ? ", only of " : ", ") + s.model + " in " + s.precision;
        if (!o.precision.empty() && s.precision != o.precision) continue;
        if (!best || (best->model != o.model && s.model == o.model)) best = &s;
    }
    if (best) return *best;
    fail(Exit::usage, "the step's time on one rank is not known: " + cluster.name + " has no line 'step'" +
                          (o.precision.empty() ? "" : " of " + o.precision) + others +
                          "; give --step TIME, or --from the runs that measured it");
}

/// Sets the cluster's time for the model, or scales another model's time by multiply-adds.
void set_known_step(PredictedTable& t, const PredictOptions& o, const Graph& graph, const Cluster& cluster) {
    const KnownStep& known = known_step(cluster, o);
    const Graph other = build_model(usual_model(known.model));
    const double factor = graph.flops_per_image() / other.flops_per_image();
    t.precision = known.precision;
    t.other_model = known.model != o.model || factor != 1;
    t.notes.push_back(formatted("one rank's step was not given: %s of %s", known.model.c_str(), cluster.name.c_str()) +
                      (t.other_model ? formatted("'s cluster file is taken, by multiply-adds (x %.3g)", factor)
                                     : "'s cluster file is taken, which says whose it is"));
    t.step = model_of_known_step(known, graph.flops_per_image());
}

/// Fits the model of a step to the measurements.
void set_step(PredictedTable& t, const MeasuredFile& measured, const Cluster& cluster) {
    for (const MeasuredStep& s : measured.steps) require_network(cluster, s.nodes);
    FittedStep fit = fit_step(measured.steps, t.work, cluster);
    t.step = std::move(fit.model);
    t.notes = std::move(fit.assumed);
    t.given = measured.steps;
    t.precision = measured.precision;
    if (measured.device == "cpu" && cluster.all_reduces.empty())
        t.notes.emplace_back("measured on CPU ranks, but the time of sums is NCCL's: give an all-reduce-table");
}

/// Checks the path of the picture, before anything is printed.
void check_picture(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (path.empty() || folder.empty() || std::filesystem::is_directory(folder, error)) return;
    fail(Exit::io, "--plot " + path + ": there is no folder " + folder.string() +
                       (error ? ": " + error.message() : "") + "; make it, or choose another");
}

}  // namespace

int predict(const std::vector<std::string>& args) {
    const PredictOptions o = parse_predict(args);
    const Cluster cluster = read_cluster(o.cluster);
    const std::vector<int> ranks = ranks_to_predict(o.ranks, cluster.ranks_per_node, cluster.nodes);
    for (const int n : ranks) require_network(cluster, (n + cluster.ranks_per_node - 1) / cluster.ranks_per_node);
    check_picture(o.plot);
    const MeasuredFile measured = measured_of(o);
    const ModelOptions m = model_of(o.model, measured);
    const Graph graph = build_model(m);
    PredictedTable t{.model = o.model,
                     .image_size = formatted("%dx%dx%d", m.h, m.w, m.c),
                     .cluster = cluster.name,
                     .classes = m.classes,
                     .batch = o.batch,
                     .work = {.gradients = ready_gradients(graph),
                              .batch = o.batch,
                              .gradient_bytes = int(o.gradient_bytes),
                              .bucket_bytes = size_t(o.bucket_mib * (1 << 20))}};
    if (measured.steps.empty())
        set_known_step(t, o, graph, cluster);
    else
        set_step(t, measured, cluster);
    predict_cells(t, cluster, ranks);
    const std::string text =
        o.as.empty() ? prediction_as(t, o.format) : reframe_references(t, cluster, o.system, measured.device == "cpu");
    std::fputs(text.c_str(), stdout);
    if (o.explain) std::fputs(prediction_explained(t).c_str(), stdout);
    std::fflush(stdout);
    if (o.plot.empty()) return 0;
    return plot_cells(prediction_as(t, Format::json), o.plot);
}

}  // namespace convoy
