// convoy evaluate: reads a model file, builds its model, and measures it on a split.
#include <algorithm>
#include <cstdio>

#include "base/shorten.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "comm/preflight.h"
#include "train/evaluator.h"
#include "train/model_file.h"

namespace convoy {
namespace po = boost::program_options;

namespace {

/// Throws Exit::bad_input, naming the first class whose name in the data is not the model's.
void check_class_names(const std::string& path, const std::vector<std::string>& model, const std::string& data_dir,
                       const std::vector<std::string>& data) {
    const auto [ours, theirs] = std::mismatch(model.begin(), model.end(), data.begin(), data.end());
    if (ours == model.end() && theirs == data.end()) return;
    const auto quoted = [](auto at, auto end) { return at == end ? "missing" : "'" + shortened(*at) + "'"; };
    fail(Exit::bad_input, path + ": class " + std::to_string(ours - model.begin()) + " is " +
                              quoted(ours, model.end()) + ", in " + data_dir + " it is " + quoted(theirs, data.end()) +
                              "; give the data set that the model was trained on, or one of its classes");
}

struct EvaluateOptions {
    std::string given;  ///< as the user wrote it: `path`, or a folder that has it
    std::string path, data, split, device;
    int64_t batch = 0, threads = 0;
    Tta views = Tta::plain;
    Placement placement = Placement::automatic;
};

po::options_description description(EvaluateOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("model-file", po::value<std::string>(&o.given)->value_name("FILE"),
         "model.h5, model-best.h5 or a checkpoint of a run folder; a run folder: its best model")                   //
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
         ("mean of several views of an image: " + help_of(tta_choices())).c_str());
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
    o.threads = value_in_range(values, "threads", 0, 4096);
    return o;
}

/// Throws Exit::bad_input, naming what the data has otherwise than the model, with both values.
void check_sizes(const EvaluateOptions& o, const ModelFile& file, const SplitInfo& d) {
    std::string trained, holds;
    const auto compare = [&](const std::string& model, const std::string& data) {
        if (model == data) return;
        trained += (trained.empty() ? "" : ", ") + model;
        holds += (holds.empty() ? "" : ", ") + data;
    };
    const auto size = [](int height, int width) { return formatted("%dx%d pixels", height, width); };
    const auto counted = [](int n, const char* one, const char* many) {
        return std::to_string(n) + " " + (n == 1 ? one : many);
    };
    if (file.preprocessing.short_side == 0)
        compare(size(file.model.h, file.model.w),
                d.ragged ? "many sizes up to " + size(d.height, d.width) : size(d.height, d.width));
    compare(counted(file.model.c, "channel", "channels"), counted(d.channels, "channel", "channels"));
    compare(counted(file.model.classes, "class", "classes"), counted(d.classes, "class", "classes"));
    if (!trained.empty())
        fail(Exit::bad_input, o.path + " was trained on images of " + trained + ", but " + o.data +
                                  " holds images of " + holds +
                                  "; give the data set that it was trained on, or one of its kind");
}

/// Throws Exit::bad_input if the images or the classes are not those of the model.
void check_data(const EvaluateOptions& o, const ModelFile& file, const SplitInfo& d) {
    const auto kind = [](DType type) { return std::string(type == DType::f32 ? "vectors" : "images"); };
    if (d.type != file.data)
        fail(Exit::bad_input, o.path + " was trained on " + kind(file.data) + ", but " + o.data + " holds " +
                                  kind(d.type) + "; give the data set that it was trained on, or one of its kind");
    check_sizes(o, file, d);
    check_class_names(o.path, file.class_names, o.data, d.class_names);
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
    Terminal terminal(stderr, comm.root());  // stdout is the result's
    const Heartbeat heartbeat(comm.activity(), terminal);
    BackendOptions how;
    how.threads = int(o.threads);
    const std::unique_ptr<Backend> backend = make_backend(o.device, how, comm);
    std::unique_ptr<SplitReader> reader;
    ModelFile file;
    Graph graph;
    comm.together([&] {
        o.path = model_in(o.given);
        file = read_model_file(o.path);
        reader = std::make_unique<SplitReader>(o.data, o.split);
        check_data(o, file, reader->info());
        check_views(o.views, reader->info(), file.preprocessing);
        graph = fuse(build_model(file.model));
    });
    if (o.path != o.given) terminal.line("model     " + o.path + ", of the run in " + o.given);
    check_alike(comm, {{"the data set (SHA-256 of its manifest)", reader->info().manifest_sha256}});
    const DataSet data(comm, *backend, *reader, 0,
                       place(comm, *backend, {.placement = o.placement}, {reader->info().image_bytes()}));
    const State state(graph, *backend, nullptr);
    comm.together([&] { load_model(o.path, state, *backend); });
    Evaluator evaluator(comm, *backend, graph, state, data, file.preprocessing, o.batch * comm.size(), o.views);
    evaluator.build({backend->allocate(evaluator.arena_bytes())});
    const EvalResult result = *evaluator.run();
    terminal.close();
    if (comm.root())
        Terminal(stdout, true)
            .line(formatted("%s on %s (%s): loss %.4f, accuracy %.2f %% (%lld of %lld), top-5 %.2f %%, %.0f images/s",
                            o.path.c_str(), o.data.c_str(), o.split.c_str(), result.loss, 100 * result.accuracy,
                            (long long)result.correct, (long long)result.images, 100 * result.top5_accuracy,
                            double(result.images) / result.seconds));
    return 0;
}

}  // namespace convoy
