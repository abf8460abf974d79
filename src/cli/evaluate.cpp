// convoy evaluate: reads a model file, builds its model, and measures it on a split.
#include <cstdio>

#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/model_data.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "comm/preflight.h"
#include "train/evaluator.h"
#include "train/model_file.h"

namespace convoy {
namespace po = boost::program_options;

namespace {

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
    choose("split", o.split, Choices<int>{{"test", 0}, {"train", 0}});
    o.threads = value_in_range(values, "threads", 0, 4096);
    return o;
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
        check_data(o.path, file, o.data, reader->info());
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
