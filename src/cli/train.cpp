// convoy train: options, backend, data, model, plan, run folder, training, model file. Each step ends on all ranks alike.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/train_options.h"
#include "model/models.h"
#include "train/model_file.h"
#include "train/trainer.h"

namespace convoy {
namespace {

TrainSetup setup_of(const TrainOptions& o, const SplitInfo& data, int ranks) {
    TrainSetup s;
    s.global_batch = o.batch_size > 0 ? o.batch_size : o.batch_per_rank * ranks;
    if (s.global_batch < ranks)
        fail(Exit::usage, "--batch-size " + std::to_string(o.batch_size) + " is smaller than the " + std::to_string(ranks) +
                              " ranks; each rank needs at least one sample a step");
    if (s.global_batch > data.images) {
        if (o.drop_last)
            fail(Exit::usage, "--drop-last leaves nothing: a global batch of " + std::to_string(s.global_batch) + " is larger than the " +
                                  std::to_string(data.images) + " training images; lower the batch");
    }
    s.optimizer = optimizer_of(o);
    s.schedule = schedule_of(o, s.global_batch);
    s.weight_decay = o.weight_decay;
    s.decay_weights_only = o.decay == "weights";
    s.augment = augment_of(o);
    if (s.augment.reflect && s.augment.pad >= std::min(data.height, data.width))
        fail(Exit::usage, "--crop-pad " + std::to_string(o.crop_pad) + ": reflected padding must be smaller than the image");
    s.normalisation = {data.mean, data.stddev};
    const auto given = [&](const char* option, const std::string& text, std::vector<float>& to) {
        const std::vector<double> numbers = numbers_of(option, text);
        if (numbers.empty()) return;
        if (int(numbers.size()) != data.channels)
            fail(Exit::usage, "--" + std::string(option) + " " + text + ": the images have " + std::to_string(data.channels) + " channels; give one number each");
        to.assign(numbers.begin(), numbers.end());
    };
    given("mean", o.mean, s.normalisation.mean);
    given("stddev", o.stddev, s.normalisation.stddev);
    for (float& deviation : s.normalisation.stddev)
        if (deviation <= 0) deviation = 1;  // a constant channel carries nothing to scale
    s.epochs = o.epochs;
    s.max_steps = o.max_steps;
    s.eval_every = o.eval_every;
    s.log_interval = o.log_interval;
    s.drop_last = o.drop_last;
    s.sync_bn = o.sync_bn;
    s.bucket_bytes = size_t(o.bucket_mib * (1 << 20));
    s.seed = uint64_t(o.seed);
    return s;
}

std::string default_output(const std::string& model) {
    const std::time_t t = std::time(nullptr);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&t));
    return "output/" + model + "-" + stamp;
}

/// Makes the run folder; only rank 0 calls it.
void make_run_folder(const std::string& dir, bool overwrite) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::exists(dir + "/metrics.h5", error)) {
        if (!overwrite) fail(Exit::usage, dir + " already holds a run; choose another --output, or --overwrite");
        for (const char* file : {"metrics.h5", "metrics.jsonl", "model.h5", "metrics.png"}) fs::remove(dir + "/" + file, error);
    }
    fs::create_directories(dir, error);
    if (error || !fs::is_directory(dir)) fail(Exit::io, dir + ": cannot be created: " + (error ? error.message() : "a file of that name exists") + "; choose another --output");
}

}  // namespace

int train(Comm& comm, const std::vector<std::string>& args) {
    // 1. Options
    ParsedOptions parsed;
    comm.together([&] { parsed = parse_train_options(args); });
    TrainOptions& o = parsed.options;
    if (o.help || o.print_config) {
        if (comm.root()) std::fputs((o.help ? parsed.help : config_text(parsed.resolved)).c_str(), stdout);
        return 0;
    }

    // 2. Backend
    std::unique_ptr<Backend> backend;
    const int fair = comm.fair_threads();
    comm.together([&] { backend = make_backend(o.device, {o.threads > 0 ? int(o.threads) : fair, o.sync_bn}, comm); });
    Console console(comm, *backend);

    // 3. Data: what it is, before any of it is read
    std::unique_ptr<SplitReader> train_reader, test_reader;
    TrainSetup setup;
    ModelOptions model;
    Graph graph;
    comm.together([&] {
        train_reader = std::make_unique<SplitReader>(o.data, "train");
        test_reader = std::make_unique<SplitReader>(o.data, "test");
        const SplitInfo& data = train_reader->info();
        check_same_shape(data, test_reader->info(), o.data);
        setup = setup_of(o, data, comm.size());

        // 4. Model
        model = {o.model, data.height, data.width, data.channels, data.classes, o.stem, float(o.label_smoothing), true};
        graph = fuse(build_model(model));
    });
    const DataSet train_data(comm, *backend, *train_reader), test_data(comm, *backend, *test_reader);

    // 5. Plan
    std::unique_ptr<Trainer> trainer;
    comm.together([&] { trainer = std::make_unique<Trainer>(comm, *backend, graph, train_data, &test_data, setup); });
    console.print_plan(parsed.resolved, o.data, train_data, test_data, graph, setup, *trainer);
    if (o.dry_run) return 0;
    comm.together([&] { trainer->build(); });

    // 6. Run folder
    const std::string output = comm.broadcast(o.output.empty() ? default_output(o.model) : o.output);
    comm.together([&] {
        if (!comm.root()) return;
        make_run_folder(output, o.overwrite);
        console.open_metrics(output, parsed.resolved, args, train_data.info().manifest_sha256);
    });
    console.describe_ranks();

    // 7. Training
    trainer->initialise();
    trainer->run(console);
    comm.together([&] {
        if (comm.root())
            save_model(output + "/model.h5", {model, setup.normalisation.mean, setup.normalisation.stddev, train_data.info().class_names},
                       trainer->state(), *backend);
    });
    console.finish(output, *trainer);
    return 0;
}

}  // namespace convoy
