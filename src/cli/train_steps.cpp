#include "cli/train_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "base/version.h"
#include "cli/auto_rate.h"
#include "cli/option_effects.h"
#include "cli/train_setup.h"
#include "cli/versions.h"
#include "comm/launcher.h"
#include "comm/preflight.h"
#include "model/models.h"
#include "plan/stream_order.h"
#include "run/metrics.h"

namespace convoy {
namespace {

/// Returns the bytes of one checkpoint.
size_t checkpoint_bytes(const State& state, int64_t ranks) {
    return state.weights().bytes() + state.optimizer_block().bytes() + state.running().bytes() * size_t(ranks);
}

constexpr const char *order_of_samples = "order of samples (--data-placement, --stream-block-mib)",
                     *order_of_a_stream = "stream, blocks of %zu bytes";

/// Returns the run folder, and the checkpoint that the run resumes from, as the options name them.
RunPlace place_of(Comm& comm, const TrainOptions& o) {
    RunPlace place;
    place.folder = comm.broadcast(o.output.empty() ? default_run_folder(o.model.name) : o.output);
    place.overwrite = o.overwrite;
    place.checkpoint = o.resume.file;
    // A checkpoint from another folder starts a new run here, with new metrics.
    place.continues = o.resume.newest || (!place.checkpoint.empty() && is_within(place.checkpoint, place.folder));
    return place;
}

/// A streamed run keeps streaming when it is resumed, unless --data-placement is given. Collective.
void keep_streaming(Comm& comm, const TrainOptions& o, PlacementWish& wish) {
    const RunPlace run = place_of(comm, o);
    if (wish.placement != Placement::automatic) return;
    size_t block = 0;
    comm.together([&] {
        if (!comm.root()) return;
        for (const auto& [name, value] : identity_to_resume(run))
            if (name == order_of_samples) (void)std::sscanf(value.c_str(), order_of_a_stream, &block);
    });
    block = size_t(comm.max(int64_t(block)));
    if (block > 0) wish = {Placement::stream, wish.stream_block > 0 ? wish.stream_block : block, wish.here};
}

/// Collective. Returns the recorded options of the run that this one continues; empty if there is
/// none.
std::string recorded_configuration(Comm& comm, const TrainOptions& o) {
    const RunPlace run = place_of(comm, o);
    std::string recorded;
    comm.together([&] {
        if (comm.root()) recorded = configuration_to_resume(run);
    });
    return comm.broadcast(recorded);
}

/// Collective. Throws Exit::usage if --audit is given and a rank cannot compute the bits of
/// another.
void check_audited_ranks(Comm& comm, const Backend& backend, const TrainSetup& setup) {
    if (setup.audit_every == 0) return;
    if (setup.sync_bn)
        fail_everywhere(Exit::usage,
                        "--audit computes the share of one rank on another, and --sync-bn needs all ranks for each "
                        "share; leave one of them out");
    const DeviceFacts& facts = backend.facts();
    const bool by_threads = setup.logical_ranks == 0 && facts.synchronous;
    const std::vector<std::string> all =
        comm.gather_all(facts.kind + (by_threads ? formatted(", %d threads", facts.threads) : ""));
    for (size_t r = 1; r < all.size(); ++r)
        if (all[r] != all[0])
            fail_everywhere(
                Exit::usage,
                formatted("--audit compares bits, and rank 0 has %s, but rank %zu has %s; use processors or "
                          "GPUs of one kind%s, or leave it out",
                          all[0].c_str(), r, all[r].c_str(), by_threads ? " and the same --threads on all ranks" : ""));
}

/// Returns numbers as --mean takes them; they read back as the same floats.
std::string list_text(const std::vector<float>& numbers) {
    std::string text;
    for (const float number : numbers) text += (text.empty() ? "" : ",") + formatted("%.9g", double(number));
    return text;
}

/// Reads --init-from on rank 0, unless a run is resumed. Mean and deviation become those of the
/// weights, unless the options give others. `recorded`: the resumed run's options; empty: none is
/// resumed. Collective.
void start_from_weights(Comm& comm, ParsedOptions& parsed, const std::string& recorded, Description& d) {
    TrainOptions& o = parsed.options;
    if (o.tuning.from.empty()) return;
    comm.together([&] {
        // A recorded path may lead to another file now, or the run may be another user's.
        const auto given = parsed.given.find("init-from");
        if (recorded.empty() && given != parsed.given.end() && given->second.file.ends_with(".h5"))
            fail(Exit::usage, given->second.file + ": recorded --init-from " + o.tuning.from +
                                  ", which is not read without asking; give --init-from too");
        if (o.overwrite && is_within(o.tuning.from, o.output))
            fail(Exit::usage,
                 "--overwrite would delete the weights of --init-from " + o.tuning.from + "; choose another --output");
        if (comm.root() && recorded.empty()) d.initial = read_initial_weights(o.tuning, d.model);
    });
    d.notes.weights = comm.broadcast(d.initial.summary);
    const auto take = [&](const char* option, NumberList& to, const std::vector<float>& trained) {
        const std::string text = comm.broadcast(recorded.empty() ? list_text(trained) : config_value(recorded, option));
        NumberList numbers = parse_numbers(option, text);
        if (!to.values.empty() || numbers.values.size() != size_t(d.model.c)) return;
        to = std::move(numbers);
        set_config_value(parsed.resolved, option, text);
    };
    take("mean", o.mean, d.initial.preprocessing.mean);
    take("stddev", o.stddev, d.initial.preprocessing.stddev);
    d.setup.preprocessing = preprocessing_of(o, d.train->info());
}

/// Returns a note on the stem that a resnet got by image size, and on the work of both stems. Empty
/// if the options or the model leave no choice.
std::string stem_note(const TrainOptions& o, const ModelOptions& model) {
    const std::string stem = stem_of(model);
    if (stem.empty() || o.model.stem != "auto") return "";
    const bool cifar = stem == "cifar";
    ModelOptions other = model;
    other.stem = cifar ? "imagenet" : "cifar";
    const double own_flops = build_model(model).flops_per_image(), other_flops = build_model(other).flops_per_image();
    const std::string share =
        cifar ? formatted("%.1f times", own_flops / other_flops) : formatted("1/%.1f of", other_flops / own_flops);
    return formatted("; %s stem by image size: %s the GFLOP of --stem %s", stem.c_str(), share.c_str(),
                     other.stem.c_str());
}

/// Returns notes on rate, stem and frozen parameters; start_from_weights() adds the one on weights.
SetupNotes notes_on(const TrainOptions& o, const Description& d, int64_t images) {
    SetupNotes notes;
    if (!o.lr) notes.rate = auto_rate(o, d.setup.global_batch, images).why;
    notes.rate += rate_factors_text(d.setup.rate_factors);
    notes.stem = stem_note(o, d.model);
    if (!o.tuning.freeze.empty())
        notes.trained = formatted("%s parameters; the other %s are frozen", grouped(d.graph.gradient_count()).c_str(),
                                  grouped(d.graph.parameter_count() - d.graph.gradient_count()).c_str());
    return notes;
}

}  // namespace

size_t expected_bytes(const TrainOptions& o, const TrainingPrograms& t, int64_t ranks) {
    const State& state = t.state();
    const size_t model = state.weights().bytes() + state.running().bytes();
    const int64_t every = steps_between_rows(t.total_steps(), o.setup.metrics_every);
    const size_t metrics = bytes_of_metrics(t.total_steps() / every, t.total_steps() / t.steps_per_epoch() + 1, ranks);
    return 3 * model +
           checkpoint_bytes(state, ranks) *
               size_t(o.setup.checkpoint_at_end ? std::max<int64_t>(o.run.keep, 1) + 2 : 2) +
           metrics;
}

std::vector<std::string> paths_of(const ParsedOptions& parsed) {
    std::vector<std::string> paths;
    for (const std::string& option : path_options())
        if (const auto given = parsed.given.find(option); given != parsed.given.end())
            paths.push_back(given->second.value);
    return paths;
}

void print_paths_of_recipe(Terminal& terminal, const ParsedOptions& parsed) {
    if (!parsed.note.empty()) terminal.line("options   " + parsed.note);
    for (const char* option : {"data", "init-from", "cluster"}) {
        const auto given = parsed.given.find(option);
        if (given == parsed.given.end() || given->second.file.empty()) continue;
        const auto& [file, value, default_value] = given->second;
        if (value != "none" && value != "auto") terminal.line("recipe    " + file + ": " + option + " = " + value);
    }
}

void check_same_convoy(Comm& comm) { check_alike(comm, {{"Convoy", std::string(version) + " " + commit()}}); }

void check_same_program(Comm& comm) {
    check_alike(comm, library_versions());
    check_same_convoy(comm);
}

void check_same_command(Comm& comm, const ParsedOptions& parsed) {
    check_same_program(comm);
    std::vector<std::string> lines;
    for (const auto& [name, value] : parsed.resolved)
        if (name == "data" && !value.empty())
            lines.emplace_back("data = a folder");
        else if (name != "devices" && name != "threads")
            lines.push_back(name + " = " + value);
    const std::string own = joined(lines, "\n");
    const std::vector<std::string> all = comm.gather_all(own);
    for (size_t rank = 1; rank < all.size(); ++rank) {
        const std::vector<std::string> first = split(all[0], '\n'), other = split(all[rank], '\n');
        const auto [ours, theirs] = std::ranges::mismatch(first, other);
        if (ours == first.end() && theirs == other.end()) continue;
        const auto shown = [](auto line, const auto& end) { return line == end ? "no further option" : *line; };
        fail_everywhere(Exit::usage, "the options differ: rank 0 has " + shown(ours, first.end()) + ", rank " +
                                         std::to_string(rank) + " has " + shown(theirs, other.end()) +
                                         "; give all ranks the same options and the same recipe");
    }
}

Description describe_training(Comm& comm, const Backend& backend, ParsedOptions& parsed,
                              std::optional<Clock::time_point> deadline) {
    const TrainOptions& o = parsed.options;
    Description d;
    const std::string recorded = recorded_configuration(comm, o);
    take_recorded_rates(recorded, parsed);
    PlacementWish wish = o.placement;
    size_t test_bytes = 0;
    comm.together([&] {
        check_effects_on_device(parsed, backend);
        d.train = std::make_unique<SplitReader>(o.data, "train");
        d.test = std::make_unique<SplitReader>(o.data, "test");
        const SplitInfo& data = d.train->info();
        check_same_shape(data, d.test->info(), o.data);
        test_bytes = o.no_eval ? 0 : first_images(*d.test, o.eval_images).image_bytes();
        d.setup = setup_of(o, data, comm.size(), deadline);
        d.model = model_of(o, data);
        take_recorded_freeze(recorded, d.model, parsed.options.tuning, parsed.resolved);
        const auto build = [&](const ModelOptions& model) {
            return with_precision(fuse(o.tuning.frozen(build_model(model))), o.backend.precision,
                                  backend.facts().channel_multiple);
        };
        d.graph = build(d.model);
        d.setup.rate_factors = factors_by_name(o.tuning.rate_factors, d.graph);
        d.earlier = earlier_graphs(o, data, d.graph, build);
        check_effects_on_model(parsed, d.graph);
        d.notes = notes_on(o, d, data.images);
        record_rates(d.setup.schedule, parsed.resolved);
    });
    check_audited_ranks(comm, backend, d.setup);
    start_from_weights(comm, parsed, recorded, d);
    for (const SplitReader* split : {d.train.get(), d.test.get()}) check_same_split(comm, *split);
    keep_streaming(comm, o, wish);
    d.placed = place(comm, backend, wish, {d.train->info().image_bytes(), test_bytes});
    return d;
}

RunPlace prepare_in_place(Comm& comm, Backend& backend, const TrainOptions& o, TrainingPrograms& programs) {
    RunPlace place = place_of(comm, o);
    std::string tuning;
    comm.together([&] {
        if (!comm.root()) return;
        check_room(place.folder, expected_bytes(o, programs, programs.batch_split().logical),
                   "checkpoints, model and metrics");
        check_can_write(place.folder);
        tuning = tuning_to_resume(place);
    });
    backend.restore_tuning(comm.broadcast(tuning));
    programs.prepare();
    return place;
}

void make_default_folder(Comm& comm, const TrainOptions& o, RunPlace& place) {
    if (!o.output.empty()) return;
    comm.together([&] {
        if (comm.root()) place.folder = make_run_folder(place.folder);
    });
    place.folder = comm.broadcast(place.folder);
}

void print_limit(Terminal& terminal, const TimeLimit& limit) {
    if (!limit.note.empty()) terminal.line("time      " + limit.note);
    if (!limit.warning.empty()) terminal.warning(limit.warning);
}

void build_programs(Comm& comm, Backend& backend, const TrainOptions& o, TrainingPrograms& programs) {
    const size_t copy = checkpoint_bytes(programs.state(), programs.batch_split().logical);
    comm.together([&] {
        programs.build();
        if (o.resume.newest || !o.resume.file.empty())
            backend.set_aside(copy, "the checkpoint to resume from", MemoryOwner::each_rank);
        // One checkpoint may still be written while the next one is taken.
        if (comm.root())
            backend.set_aside(2 * copy, "copying the training's state for checkpoints", MemoryOwner::this_rank);
    });
}

std::string note_on_signals(const RunFiles& files, const State& state, int64_t ranks) {
    const double left = launcher_grace().to_kill;  // seconds
    const size_t bytes = checkpoint_bytes(state, ranks);
    double seconds = 0;
    try {
        seconds = estimated_seconds(files.run(), bytes);
    } catch (const Error&) {
        return "";  // other warnings report a full disk
    }
    if (seconds <= 0.75 * left) return "";
    return formatted(
        "signals   a checkpoint of %.0f MiB takes about %.0f s here; mpirun kills its ranks %g s after a TERM or "
        "Ctrl-C, and steps since the last checkpoint are lost then: stop with USR1",
        double(bytes) / (1 << 20), std::ceil(seconds), left);
}

Identity identity_of(const TrainOptions& o, const SplitInfo& data, const TrainSetup& s, const Placed& placed) {
    const auto number = [](int64_t n) { return std::to_string(n); };
    Identity identity = {{"model", o.model.name},
                         {"stem", o.model.stem},
                         {"image size", number(data.height) + "x" + number(data.width) + "x" + number(data.channels)},
                         {"number of classes", number(data.classes)},
                         {"data set (manifest SHA-256)", data.manifest_sha256},
                         {"optimizer", name_of(optimizer_choices(), o.optimizer)},
                         {"global batch (--batch-size)", number(s.global_batch)},
                         {"drop-last", o.setup.drop_last ? "true" : "false"},
                         {"seed", std::to_string(o.setup.seed)}};
    if (o.image_size.side > 0 || s.preprocessing.short_side > 0)
        identity.emplace_back("what the model sees (--image-size)", o.image_size.text);
    if (placed.placement == Placement::stream)
        identity.emplace_back(order_of_samples, formatted(order_of_a_stream,
                                                          stream_block_bytes(placed.stream_block, data.image_bytes())));
    if (s.logical_ranks > 0) identity.emplace_back("virtual ranks", number(s.logical_ranks));
    if (o.setup.look_ahead > 0) identity.emplace_back("look-ahead", "on");
    if (!o.tuning.freeze.empty())
        identity.emplace_back(
            "frozen parameters (--freeze)",
            joined(o.tuning.freeze, ",") + (o.tuning.freeze_batchnorm ? ", and their statistics" : ""));
    return identity;
}

}  // namespace convoy
