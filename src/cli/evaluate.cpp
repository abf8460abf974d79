// convoy evaluate: reads a model file, builds its model, and measures it on a split.
#include <algorithm>
#include <cstdio>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/preflight.h"
#include "cli/terminal.h"
#include "comm/comm.h"
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
    const auto quoted = [](auto at, auto end) { return at == end ? "missing" : "'" + *at + "'"; };
    fail(Exit::bad_input, path + ": class " + std::to_string(ours - model.begin()) + " is " +
                              quoted(ours, model.end()) + ", in " + data_dir + " it is " + quoted(theirs, data.end()) +
                              "; give the data set that the model was trained on, or one of its classes");
}

}  // namespace

int evaluate(Comm& comm, const std::vector<std::string>& args) {
    std::string path, data_dir, split, device, tta;
    int64_t batch = 0, threads = 0;
    bool help = false;
    po::options_description options("options of evaluate");
    options.add_options()                                                                                                           //
        ("model-file", po::value<std::string>(&path)->value_name("FILE"), "model.h5, model-best.h5 or a checkpoint of a run folder")  //
        ("data", po::value<std::string>(&data_dir)->value_name("DIR"), "data set of HDF5 shards")                                  //
        ("split", po::value<std::string>(&split)->default_value("test")->value_name("NAME"), "test or train")                     //
        ("batch-per-rank", po::value<int64_t>()->default_value(256)->value_name("N"), "samples a rank a step")                     //
        ("device", po::value<std::string>(&device)->default_value("auto")->value_name("KIND"), "auto, cuda or cpu")                //
        ("threads", po::value<int64_t>()->default_value(0)->value_name("N"), "CPU threads a rank; 0: this rank's share of the cores")  //
        ("tta", po::value<std::string>(&tta)->default_value("none")->value_name("VIEWS"), "mean of several views of an image: none, mirror, or full (mirrored and shifted by a pixel: 6)")  //
        ("help", po::bool_switch(&help), "print this");
    comm.together([&] {
        const po::variables_map values = parse(options, args);
        if (help) return;
        required_value(values, "model-file");
        required_value(values, "data");
        batch = value_in_range(values, "batch-per-rank", 1, 1 << 24);
        parse_tta(tta);
        threads = value_in_range(values, "threads", 0, 4096);
    });
    if (help) {
        if (comm.root()) std::printf("usage: convoy evaluate --model-file FILE --data DIR [options]\n%s", (std::ostringstream() << options).str().c_str());
        return 0;
    }

    Terminal terminal(stderr, comm.root());  // stdout is the result's
    const Heartbeat heartbeat(comm.activity(), terminal);
    const std::unique_ptr<Backend> backend = make_backend(device, {int(threads), false}, comm);
    std::unique_ptr<SplitReader> reader;
    ModelFile file;
    Graph graph;
    comm.together([&] {
        file = read_model_file(path);
        reader = std::make_unique<SplitReader>(data_dir, split);
        const SplitInfo& d = reader->info();
        if (d.height != file.model.h || d.width != file.model.w || d.channels != file.model.c || d.classes != file.model.classes)
            fail(Exit::bad_input, path + " was trained on other images than " + data_dir + " holds: size, channels or classes differ");
        check_class_names(path, file.class_names, data_dir, d.class_names);
        graph = fuse(build_model(file.model));
    });
    check_alike(comm, {{"the data set (SHA-256 of its manifest)", reader->info().manifest_sha256}});
    const DataSet data(comm, *backend, *reader);
    const State state(graph, *backend, nullptr);
    comm.together([&] { load_model(path, state, *backend); });
    Evaluator evaluator(comm, *backend, graph, state, data, {file.mean, file.stddev}, batch * comm.size(), parse_tta(tta));
    evaluator.build(backend->allocate(evaluator.arena_bytes()));
    const EvalResult result = *evaluator.run();
    terminal.close();
    if (comm.root())
        Terminal(stdout, true)
            .line(formatted("%s on %s (%s): loss %.4f, accuracy %.2f %% (%lld of %lld), %.0f images/s", path.c_str(),
                            data_dir.c_str(), split.c_str(), result.loss, 100 * result.accuracy,
                            (long long)result.correct, (long long)result.images,
                            double(result.images) / result.seconds));
    return 0;
}

}  // namespace convoy
