// convoy train: options, backend, data and model, programs, run folder, training. If a part fails
// on one rank, it fails on all ranks.
#include <cstdio>

#include "base/shell_word.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/dry_run.h"
#include "cli/log_file.h"
#include "cli/progress_lines.h"
#include "cli/recorded_options.h"
#include "cli/train_setup.h"
#include "cli/train_steps.h"
#include "cli/versions.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"
#include "run/finished_run.h"
#include "run/last_resort.h"
#include "run/recorder.h"
#include "run/signals.h"

namespace convoy {
namespace {

RunDescription describe_run(const ParsedOptions& parsed, const std::vector<std::string>& args, const Description& d,
                            const SplitInfo& data, const TrainingPrograms& programs, const Backend& backend,
                            RunPlace place, int ranks) {
    const TrainOptions& o = parsed.options;
    RunDescription run = o.run;
    run.place = std::move(place);
    run.model = {d.model, d.setup.preprocessing, data.class_names, data.type};
    run.attributes = {.command_line = command_line_of("train", args),
                      .configuration = parsed.resolved,
                      .ranks = ranks,
                      .device_kind = backend.facts().synchronous ? "cpu" : "gpu",
                      .identity = identity_of(o, data, d.setup, d.placed),
                      .versions = versions_of_run(backend),
                      .environment = environment_of_run(backend)};
    run.metrics_every = steps_between_rows(programs.total_steps(), o.setup.metrics_every);
    run.logical = d.setup.logical_ranks > 0;
    run.paths = paths_of(parsed);
    return run;
}

RunShape shape_of(const TrainOptions& o, const TrainSetup& setup, const TrainingPrograms& programs, const DataSet& data,
                  const Comm& comm) {
    return {.rank = comm.rank(),
            .ranks = comm.size(),
            .batch_per_rank = o.batch_per_rank > 0,
            .total_steps = programs.total_steps(),
            .steps_per_epoch = programs.steps_per_epoch(),
            .log_interval = setup.log_interval,
            .global_batch = setup.global_batch,
            .images = data.info().images};
}

/// Prints where images are, except for replicate on CPUs, and the transport of GPUs.
void print_transport(Terminal& terminal, const Placed& placed, const Backend& backend) {
    if (!placed.why.empty()) terminal.line("images    " + placed.why);
    if (const std::string transport = backend.facts().transport; !transport.empty())
        terminal.line("sums      over ranks by " + transport);
}

/// Collective. Returns the options, with those that the resumed run recorded. Sets `limit`, on
/// rank 0 only.
ParsedOptions read_options(Comm& comm, const std::vector<std::string>& args, TimeLimit& limit) {
    const OptionsOf options{.recorded = recorded_options(comm, args)};
    ParsedOptions parsed;
    comm.together([&] {
        parsed = parse_train_options(args, options);
        if (comm.root()) limit = time_limit_of(parsed.options.time_limit);
    });
    return parsed;
}

/// Collective. Opens the log. Throws what LogFile throws.
void open_log(Comm& comm, const ParsedOptions& parsed, Terminal& terminal) {
    comm.together([&] {
        const std::string& folder = parsed.options.log_dir;
        if (folder.empty()) return;
        terminal.log_to(log_path(folder, comm.rank()));
        for (const std::string& note : {note_on_log_link(folder), warning_of_log_folder(folder)})
            if (comm.root() && !note.empty()) terminal.warning(note);
    });
    print_paths_of_recipe(terminal, parsed);
}

/// Collective. Opens the run folder, and moves the trainer to the step where the run begins or
/// resumes.
void begin_run(Comm& comm, Trainer& trainer, Recorder& recorder, Terminal& terminal, InitialWeights initial) {
    std::optional<Checkpoint> from;
    comm.together([&] {
        if (comm.root()) from = recorder.open_folder(trainer.programs().total_steps());
    });
    if (comm.root())
        if (const std::string note =
                note_on_signals(recorder.files(), trainer.programs().state(), trainer.programs().batch_split().logical);
            !note.empty())
            terminal.line(note);
    if (comm.max(int64_t(from.has_value())) > 0)
        trainer.restore(from ? std::move(*from) : Checkpoint());
    else
        trainer.programs().initialise(initial.values);
    initial = {};
    comm.together([&] {
        if (comm.root()) recorder.open_metrics(trainer);
    });
    recorder.start(trainer.progress().step);
}

/// Collective. Trains to the end, or until a rank is asked to stop.
void run_to_end(Comm& comm, Trainer& trainer, Backend& backend, Recorder& recorder, Console& console,
                Requests& requests, const std::string& folder, const std::string& limit, const std::string& again) {
    const auto say = [&](const std::string& signal, int64_t step) {
        recorder.record_termination(step, signal + ", in the middle of a step or an evaluation");
        console.print_termination(words_of_signal(), step, folder, again);
    };
    comm.or_abort([&] {
        try {
            const LastResort last_resort(comm, trainer, requests,
                                         {.save = [&](Checkpoint&& c) { return recorder.save_snapshot(std::move(c)); },
                                          .pause = [&](double seconds) { backend.pause(seconds); },
                                          .saved_step = [&] { return recorder.saved_step(); },
                                          .say = say});
            trainer.run(recorder);
            console.end_progress();
        } catch (const std::exception& error) {
            console.clear();
            recorder.record_failure(trainer.progress().step, error.what());
            throw;
        }
    });
    comm.together([&] {
        const std::string signal = words_of_signal();
        const std::string stopped_by = !signal.empty() ? signal : "a request of another rank or " + limit;
        if (comm.root()) recorder.finish(trainer, stopped_by);
        console.print_end(folder, stopped_by, again);
    });
}

/// Collective. Returns true, and prints a line, if the run is done and left nothing to resume from.
bool is_done(Comm& comm, const RunPlace& place, const Identity& identity, const TrainingPrograms& programs,
             Terminal& terminal) {
    bool finished = false;
    comm.together([&] { finished = comm.root() && is_finished(place, identity, programs.total_steps()); });
    if (finished)
        terminal.line(
            formatted("done: the run had ended already, after %lld steps, and kept no checkpoint; model in %s",
                      (long long)programs.total_steps(), shell_word(place.folder + "/model.h5").c_str()));
    return comm.max(int64_t(finished)) > 0;
}

/// Collective. Returns the exit code of the training.
int exit_code(Comm& comm, const Trainer& trainer) {
    if (!trainer.stopped()) return int(Exit::done);
    const char* signal = signal_received();
    const bool interrupted = comm.max(int64_t(signal && std::string(signal) == "SIGINT")) > 0;
    return interrupted ? 130 : int(Exit::requeue);
}

}  // namespace

OptionGroups options_of_train() { return option_groups(); }

int train(Comm& comm, const std::vector<std::string>& args) {
    // 1. Options
    TimeLimit limit;
    ParsedOptions parsed = read_options(comm, args, limit);
    const TrainOptions& o = parsed.options;
    if (o.print_config) {
        if (comm.root()) std::fputs(printable(config_text(parsed.resolved), "\n").c_str(), stdout);
        return 0;
    }

    comm.together([&] { check_world(comm); });
    Terminal terminal(stdout, comm.root());
    const Heartbeat heartbeat(comm.activity(), terminal);
    // A dry run for a chip waits for no other rank, and cuDNN may list its plans for minutes.
    Watchdog watchdog(comm, o.chip.empty() ? o.watchdog : 0);
    check_same_command(comm, parsed);
    if (o.dry_run) return dry_run(comm, parsed, limit, terminal);
    open_log(comm, parsed, terminal);
    static Requests requests;  // static, because a signal may come until the process ends
    stop_on_signals(requests);

    // 2. Backend
    const std::unique_ptr<Backend> backend = make_backend(o.device, o.backend, comm);

    // 3. Data and model, without reading an image
    Description d = describe_training(comm, *backend, parsed, limit.deadline);
    const DataSet train_data(comm, *backend, *d.train, 0, d.placed);
    const std::unique_ptr<DataSet> test_data =
        o.no_eval ? nullptr : std::make_unique<DataSet>(comm, *backend, *d.test, o.eval_images, d.placed);
    d.close_files();

    // 4. Programs, and what the training will do
    std::unique_ptr<Trainer> trainer;
    comm.together([&] {
        trainer = std::make_unique<Trainer>(comm, *backend, d.graph, train_data, test_data.get(), d.setup, requests,
                                            std::move(d.earlier));
    });
    TrainingPrograms& programs = trainer->programs();
    RunPlace place = prepare_in_place(comm, *backend, o, programs);
    if (is_done(comm, place, identity_of(o, train_data.info(), d.setup, d.placed), programs, terminal)) return 0;
    Console console(*trainer, terminal,
                    make_progress_lines(o.log_format, shape_of(o, d.setup, programs, train_data, comm), terminal));
    console.print_setup(parsed.resolved, o.data, train_data, test_data.get(), d.graph, d.setup, comm.size(), d.notes);
    print_transport(terminal, d.placed, *backend);
    print_limit(terminal, limit);
    build_programs(comm, *backend, o, programs);

    // 5. Run folder, and where to resume
    make_default_folder(comm, o, place);
    watchdog.report_to(place.folder + "/stalled");
    Recorder recorder(comm, *backend, programs.state(), console,
                      describe_run(parsed, args, d, train_data.info(), programs, *backend, place, comm.size()));
    begin_run(comm, *trainer, recorder, terminal, std::move(d.initial));
    watchdog.hold_reports();

    // 6. Training
    run_to_end(comm, *trainer, *backend, recorder, console, requests, place.folder, limit.name,
               continuing_command(parsed, args, place.folder, comm.size()));
    return exit_code(comm, *trainer);
}

}  // namespace convoy
