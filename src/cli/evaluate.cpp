// convoy evaluate: reads a model file, builds its model, and measures it on a split.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/error_files.h"
#include "cli/model_data.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "comm/preflight.h"
#include "model/precision.h"
#include "train/evaluator.h"
#include "train/forward_pass.h"
#include "train/model_file.h"

namespace convoy {
namespace po = boost::program_options;

namespace {

struct EvaluateOptions {
    std::string given;  ///< --model-file: `path`, or the run folder that contains it
    std::string path, data, split, device;
    std::optional<ReportFolder> report;
    int64_t batch = 0, threads = 0;
    bool json = false, overwrite = false;
    Tta views = Tta::plain;
    Placement placement = Placement::automatic;
    Precision precision = Precision::f32;
};

po::options_description description(EvaluateOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("model-file", po::value<std::string>(&o.given)->value_name("FILE"),
         model_file_help)                                                                                           //
        ("data", po::value<std::string>(&o.data)->value_name("DIR"), "data set of HDF5 shards")                     //
        ("split", po::value<std::string>(&o.split)->default_value("test")->value_name("NAME"), "test or train")     //
        ("batch-per-rank", po::value<int64_t>()->default_value(256)->value_name("N"), "samples per rank and step")  //
        ("device", po::value<std::string>(&o.device)->default_value("auto")->value_name("KIND"),
         help_of(device_choices()).c_str())  //
        ("data-placement", po::value<std::string>()->default_value("auto")->value_name("WHERE"),
         ("where images are: " + help_of(placement_choices())).c_str())  //
        ("threads", po::value<int64_t>()->default_value(0)->value_name("N"),
         "CPU threads per rank; 0: this rank's share of the cores")  //
        ("tta", po::value<std::string>()->default_value("none")->value_name("VIEWS"),
         ("mean of several views of an image: " + help_of(tta_choices())).c_str())  //
        ("precision", po::value<std::string>()->default_value("f32")->value_name("TYPE"),
         ("of activations: " + help_of(precision_choices())).c_str())                                    //
        ("format", po::value<std::string>()->default_value("text")->value_name("KIND"), "text or json")  //
        ("report", po::value<std::string>()->default_value("")->value_name("DIR"),
         "write a report of what the model gets wrong: report.html, JSON, CSV and pictures")  //
        ("overwrite", po::bool_switch(&o.overwrite), "replace the report that is in the folder");
    return options;
}

EvaluateOptions parse_evaluate(const std::vector<std::string>& args) {
    EvaluateOptions o;
    const po::variables_map values = parse(description(o), args);
    required_value(values, "model-file");
    required_value(values, "data");
    o.batch = value_in_range(values, "batch-per-rank", 1, 1 << 24);
    o.views = choose("tta", values["tta"].as<std::string>(), tta_choices());
    o.placement = choose("data-placement", values["data-placement"].as<std::string>(), placement_choices());
    choose("split", o.split, Choices<int>{{"test", 0}, {"train", 0}});
    o.threads = value_in_range(values, "threads", 0, 4096);
    o.precision = choose("precision", values["precision"].as<std::string>(), precision_choices());
    o.json = choose("format", values["format"].as<std::string>(), Choices<bool>{{"text", false}, {"json", true}});
    const std::string report = values["report"].as<std::string>();
    if (!report.empty() && o.views != Tta::plain)
        fail(Exit::usage, "--report shows one view of each image; leave --tta out");
    if (!report.empty() && (o.placement == Placement::partition || o.placement == Placement::stream))
        fail(Exit::usage, "--report needs all images in memory; leave --data-placement out");
    if (!report.empty()) o.report.emplace(report, o.overwrite);
    return o;
}

void print_json(const nlohmann::ordered_json& result) {
    std::printf("%s\n", result.dump(1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
}

void print(const EvaluateOptions& o, const EvalResult& r) {
    const double rate = double(r.images) / r.seconds;
    if (o.json)
        print_json({{"model", o.path},
                    {"data", o.data},
                    {"split", o.split},
                    {"precision", name_of(precision_choices(), o.precision)},
                    {"tta", name_of(tta_choices(), o.views)},
                    {"images", r.images},
                    {"correct", r.correct},
                    {"loss", r.loss},
                    {"accuracy", r.accuracy},
                    {"top5_accuracy", r.top5_accuracy},
                    {"images_per_second", rate}});
    else
        Terminal(stdout, true)
            .line(formatted("%s on %s (%s): loss %.4f, accuracy %.2f %% (%lld of %lld), top-5 %.2f %%, %.0f images/s",
                            o.path.c_str(), o.data.c_str(), o.split.c_str(), r.loss, 100 * r.accuracy,
                            (long long)r.correct, (long long)r.images, 100 * r.top5_accuracy, rate));
}

/// Collective. Analyses the whole split on rank 0, from the logits of all ranks.
ErrorAnalysis analyse(Comm& comm, Backend& backend, const Graph& graph, const State& state, const DataSet& data,
                      const Preprocessing& preprocessing, int64_t global_batch) {
    ForwardPass pass(comm, backend, graph, state, data, preprocessing, global_batch);
    std::vector<int32_t> labels(size_t(data.info().images));
    backend.download(labels.data(), data.labels().data, labels.size() * sizeof(int32_t));
    ErrorAnalysis analysis(graph.classes);
    const Phase phase(comm.activity(), "evaluation", "batch", 0, pass.batches());
    const auto classes = size_t(graph.classes);
    for (int64_t batch = 0, image = 0; batch < pass.batches(); ++batch) {
        comm.activity().advance(batch);
        const ForwardPass::Result result = pass.run(batch);
        comm.together([&] {
            for (size_t i = 0; comm.root() && i < size_t(result.samples); ++i, ++image)
                analysis.add(image, std::span(result.outputs).subspan(i * classes, classes), labels[image]);
        });
    }
    return analysis;
}

/// Collective. Measures the model as evaluations of a training do.
EvalResult measure(Comm& comm, Backend& backend, const Graph& graph, const State& state, const DataSet& data,
                   const ModelFile& file, const EvaluateOptions& o) {
    Evaluator evaluator(comm, backend, graph, state, data, file.preprocessing, o.batch * comm.size(), o.views);
    evaluator.build({backend.allocate(evaluator.arena_bytes())});
    return *evaluator.run();
}

/// Returns the figures of an analysis of all images.
EvalResult result_of(const ErrorAnalysis& a, double seconds) {
    const auto images = double(a.images());
    return {.loss = a.loss(),
            .accuracy = double(a.correct()) / images,
            .top5_accuracy = double(a.correct_in_five()) / images,
            .seconds = seconds,
            .correct = a.correct(),
            .images = a.images()};
}

}  // namespace

OptionGroups options_of_evaluate() {
    EvaluateOptions unused;
    return one_group(description(unused));
}

int evaluate(Comm& comm, const std::vector<std::string>& args) {
    EvaluateOptions o;
    comm.together([&] {
        o = parse_evaluate(args);
        check_world(comm);
    });
    Terminal terminal(stderr, comm.root());  // stdout is for the result
    if (const std::string warning = o.report ? o.report->warning() : ""; !warning.empty()) terminal.warning(warning);
    const Heartbeat heartbeat(comm.activity(), terminal);
    BackendOptions how;
    how.threads = int(o.threads);
    how.precision = o.precision;
    const std::unique_ptr<Backend> backend = make_backend(o.device, how, comm);
    std::unique_ptr<SplitReader> reader;
    std::optional<OpenModel> model;
    Graph graph;
    comm.together([&] {
        o.path = model_in(o.given);
        const ModelFile& file = model.emplace(o.path).file();
        reader = std::make_unique<SplitReader>(o.data, o.split);
        check_data(o.path, file, o.data, reader->info());
        check_views(o.views, reader->info(), file.preprocessing);
        graph = with_precision(fuse(build_model(file.model)), o.precision, backend->facts().channel_multiple);
        model->check_tensors(graph);
    });
    const ModelFile& file = model->file();
    if (o.path != o.given) terminal.line("model     " + o.path + ", of the run in " + o.given);
    check_same_model(comm, *model);
    check_same_split(comm, *reader);
    const Placement placement = o.report && o.placement == Placement::automatic ? Placement::replicate : o.placement;
    const DataSet data(comm, *backend, *reader, 0,
                       place(comm, *backend, {.placement = placement}, {reader->info().image_bytes()}));
    const State state(graph, *backend, nullptr);
    comm.together([&] { load_finite_model(*model, state, *backend); });
    std::optional<ErrorAnalysis> errors;  // filled on rank 0, empty on other ranks
    EvalResult result;
    if (o.report) {
        const auto start = std::chrono::steady_clock::now();
        errors.emplace(analyse(comm, *backend, graph, state, data, file.preprocessing, o.batch * comm.size()));
        result = result_of(*errors, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    } else {
        result = measure(comm, *backend, graph, state, data, file, o);
    }
    comm.together([&] {
        if (comm.root() && !std::isfinite(result.loss))
            fail(Exit::bad_input, o.path + ": its outputs on " + o.data +
                                      " are not finite; its weights may be too large for --precision, or damaged");
    });
    terminal.close();
    if (comm.root()) print(o, result);  // before the report, which may fail
    if (!o.report) return 0;
    comm.together([&] {
        if (comm.root()) o.report->write(*errors, {o.path, o.data, o.split, file.class_names}, *reader);
    });
    Terminal(stderr, comm.root()).line("report    " + o.report->path() + "/report.html");
    return 0;
}

}  // namespace convoy
