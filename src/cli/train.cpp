// convoy train: options, backend, data, model, plan, run folder, training, model file. Each step ends on all ranks alike.
#include <cstdio>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/dry_run.h"
#include "cli/last_resort.h"
#include "cli/preflight.h"
#include "cli/signals.h"
#include "cli/train_options.h"
#include "cli/train_setup.h"
#include "cli/train_steps.h"
#include "cli/versions.h"
#include "comm/watchdog.h"
#include "train/model_file.h"
#include "train/trainer.h"

namespace convoy {

ModelOptions model_of(const TrainOptions& o, const SplitInfo& data) {
    ModelOptions m;
    m.name = o.model;
    m.h = data.height;
    m.w = data.width;
    m.c = data.channels;
    m.classes = data.classes;
    m.stem = o.stem;
    m.label_smoothing = float(o.label_smoothing);
    m.sum_loss = o.loss == "sum";
    return m;
}

TrainSetup setup_of(const TrainOptions& o, const SplitInfo& data, int ranks, std::optional<Clock::time_point> deadline) {
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
    s.weight_decay = weight_decay_of(o, s.global_batch);
    s.decoupled_decay = o.decay_mode == "decoupled";
    s.norm_shift_rate = o.norm_shift_lr;
    s.filter_rate = o.filter_lr;
    s.linear_rate = o.linear_lr;
    s.muon = o.optimizer == "muon";
    s.whitening_bias_epochs = o.whitening_bias_epochs;
    s.look_ahead = o.look_ahead;
    s.look_ahead_decay = o.look_ahead_decay;
    s.tta = parse_tta(o.tta);
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
    s.metrics_every = o.metrics_every;
    s.drop_last = o.drop_last;
    s.sync_bn = o.sync_bn;
    s.bucket_bytes = size_t(o.bucket_mib * (1 << 20));
    s.seed = uint64_t(o.seed);
    const CheckpointClock clock = checkpoint_clock_of(o);
    s.checkpoint_steps = clock.steps;
    s.checkpoint_epochs = clock.epochs;
    s.checkpoint_seconds = clock.seconds;
    s.deadline = deadline;
    s.on_nan = o.on_nan == "skip" ? OnNan::skip : o.on_nan == "rollback" ? OnNan::rollback : OnNan::stop;
    return s;
}

int train(Comm& comm, const std::vector<std::string>& args) {
    // 1. Options
    ParsedOptions parsed;
    std::optional<Clock::time_point> deadline;
    comm.together([&] {
        parsed = parse_train_options(args);
        if (const double seconds = time_limit_of(parsed.options); seconds > 0)
            deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    });
    TrainOptions& o = parsed.options;
    if (o.help || o.print_config) {
        const std::string text = o.help ? parsed.help : config_text(parsed.resolved);
        if (comm.root()) std::fputs(printable(text, "\n").c_str(), stdout);
        return 0;
    }

    comm.together([&] { check_world(comm); });
    Terminal terminal(stdout, comm.root());
    const Heartbeat heartbeat(comm.activity(), terminal);
    Watchdog watchdog(comm, watchdog_of(o));
    std::vector<std::pair<std::string, std::string>> alike = library_versions();
    alike.emplace_back("Convoy", std::string(version) + " " + commit());
    check_alike(comm, alike);
    if (o.dry_run) return dry_run(comm, parsed, deadline, terminal);
    static Requests requests;  // a signal may come until the process ends
    stop_on_signals(requests);

    // 2. Backend
    const std::unique_ptr<Backend> backend = make_backend(o.device, backend_options_of(o), comm);

    // 3. Data and model: what they are, before any image is read
    Description d = describe_training(comm, *backend, parsed, deadline);
    const DataSet train_data(comm, *backend, *d.train);
    const std::unique_ptr<DataSet> test_data = o.no_eval ? nullptr : std::make_unique<DataSet>(comm, *backend, *d.test, o.eval_images);
    d.train.reset();
    d.test.reset();

    // 4. Plan
    std::unique_ptr<Trainer> trainer;
    comm.together([&] { trainer = std::make_unique<Trainer>(comm, *backend, d.graph, train_data, test_data.get(), d.setup, requests); });
    std::unique_ptr<RunFolder> folder;
    Console console(comm, *backend, trainer->state(), terminal);  // ends before what its checkpoint thread uses: the trainer's state and the folder's lock
    console.print_plan(parsed.resolved, o.data, train_data, test_data.get(), d.graph, d.setup, *trainer);
    const Output out = check_output(comm, o, *trainer);
    build_programs(comm, *backend, o, *trainer);

    // 5. Run folder, and where to go on
    const std::string& output = out.folder;
    const Identity identity = identity_of(o, train_data.info(), d.setup);
    const ModelFile model_file{d.model, d.setup.normalisation.mean, d.setup.normalisation.stddev, train_data.info().class_names};
    watchdog.report_to(output + "/stalled");
    std::optional<ResumePoint> resume;
    comm.together([&] {
        if (!comm.root()) return;
        folder = std::make_unique<RunFolder>(output, out.goes_on, o.overwrite);
        resume = find_resume_point(o, out, *trainer, identity);
        if (!resume) return;
        std::vector<std::string> later;
        if (out.goes_on) later = set_aside_after(output, resume->checkpoint.step);
        for (const std::string& path : later)
            terminal.warning("a checkpoint later than the one to go on from is now " + path);
        const std::string failure = renew_best_model(output, *resume, !later.empty(), trainer->state(), identity);
        if (!failure.empty()) terminal.warning("no model-best.h5 until a better evaluation: " + failure);
    });
    if (comm.root())
        if (const std::string note = note_on_signals(output, trainer->state(), comm.size()); !note.empty()) terminal.line(note);
    const std::string configuration_before = resume ? resume->checkpoint.configuration : "";
    if (comm.max(int64_t(resume.has_value())) > 0)
        trainer->restore(resume ? std::move(resume->checkpoint) : Checkpoint());
    else
        trainer->initialise();
    comm.together([&] {
        if (comm.root())
            console.open_run({output, resume ? resume->path : "", out.goes_on, o.keep, publish_every_of(o), o.strict_io, args, parsed.resolved, identity,
                              model_file},
                             *trainer, configuration_before);
    });
    console.describe_ranks();

    // 6. Training
    comm.or_abort([&] {
        try {
            const LastResort last_resort(comm, *trainer, requests,
                                         {.save = [&](Checkpoint&& c) { return console.save_held(std::move(c)); },
                                          .pause = [&](double seconds) { backend->pause(seconds); },
                                          .saved_step = [&] { return console.saved_step(); },
                                          .say = [&](int64_t step) { console.say_ended(step); }});
            trainer->run(console);
        } catch (const std::exception& error) {
            console.record_failure(trainer->step(), error.what());
            throw;
        }
    });
    comm.together([&] {
        if (!comm.root()) return;
        if (!trainer->stopped()) save_model(output + "/model.h5", model_file, trainer->state(), *backend);
        console.finish(*trainer);
    });
    if (!trainer->stopped()) return int(Exit::done);
    const char* signal = signal_received();
    const bool interrupted = comm.max(int64_t(signal && std::string(signal) == "SIGINT")) > 0;
    return interrupted ? 130 : int(Exit::requeue);
}

}  // namespace convoy
