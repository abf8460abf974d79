// The table of options of `convoy train`, and the function that parses them.
#include "cli/train_options.h"

#include <algorithm>

#include "backend/chips.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/option_effects.h"
#include "cli/recorded_options.h"
#include "cli/train_setup.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

constexpr int64_t most_samples = 1 << 24, most_steps = 1'000'000'000'000'000;

void add_files(OptionTable& t, TrainOptions& o, const OptionsOf& command) {
    t.text("data", o.data, "", "DIR", "data set of HDF5 shards, made by 'convoy convert'");
    t.text("model", o.model.name, command.model.c_str(), "NAME", list_of(model_names()));
    t.choice("stem", o.model.stem, "auto",
             Choices<std::string>{{"auto", "auto", "by image size"}, {"imagenet", "imagenet"}, {"cifar", "cifar"}},
             "KIND", "of the resnets: {}");
    t.config("config", "FILE",
             "recipe: a file of lines 'option = value'; it may not say what to write or replace; options given here "
             "win over it");
    t.group("run folder and checkpoints");
    t.text("output", o.output, "", "DIR", command.output);
    t.flag("overwrite", o.overwrite, "replace the run that is in --output");
    t.parsed(
        "resume", o.resume, "none", parse_resume, "WHAT",
        "none, a checkpoint file, or auto (newest intact checkpoint in --output; if --data or the batch is not given, "
        "with the options that the run recorded)");
    t.parsed("checkpoint-every", o.setup, "10m", parse_checkpoint_clock, "WHEN",
             "500 (steps), 10m or 1h30m (time), or 2e (epochs): each also at the end and after the best evaluation; "
             "none: only before a stop");
    t.whole("keep", o.run.keep, command.keep, {0, 1'000'000}, "N",
            "newest checkpoints to keep, besides the best; 0: none when done");
    t.parsed("time-limit", o.time_limit, "", parse_time_limit, "TIME",
             "checkpoint and stop (exit 85) in time, as in 1h50m; by default Slurm's limit");
    t.flag("strict-io", o.run.strict_io,
           "end the run if metrics or a checkpoint cannot be written; else warn and train on");
    t.parsed("publish-every", o.run.publish_every, "5s", parse_publish_every, "TIME",
             "least time between two updates of metrics.h5; longer if an update takes more than 2 % of that time");
    t.choice("on-nan", o.setup.on_nan, "stop",
             Choices<OnNan>{{"stop", OnNan::stop, "exit 4"},
                            {"skip", OnNan::skip, "leave the update out"},
                            {"rollback", OnNan::rollback, "to the last checkpoint, at half the rate"}},
             "WHAT", "if loss or gradients are not finite: {}");
    t.parsed("audit", o.setup.audit_every, "none", parse_audit, "1/N",
             "1/50: at every 50th step each rank also computes the share of the rank before it, and the bits of both "
             "are compared; none: never");
    t.choice("on-audit", o.setup.on_audit, "stop",
             Choices<OnAudit>{{"stop", OnAudit::stop, "exit 8"}, {"warn", OnAudit::warn, "train on"}}, "WHAT",
             "what to do if these bits differ, besides naming rank, host and device: {}");
    t.parsed("watchdog", o.watchdog, "300s", parse_watchdog, "TIME",
             "end the job (exit 6) if a rank makes no progress for this long; none: never");
}

void add_device(OptionTable& t, TrainOptions& o) {
    BackendOptions& b = o.backend;
    t.group("devices and seed");
    t.choice("device", o.device, "auto", device_choices(), "KIND", "{}");
    t.choice("precision", b.precision, "f32", precision_choices(), "TYPE",
             "of activations and gradients: {}; on CPUs f32 or bf16");
    t.parsed("devices", b.devices, "", parse_devices, "I,J",
             "GPUs that the ranks of a node take, counted among the visible ones; all by default");
    t.choice("data-placement", o.placement.placement, "auto", placement_choices(), "WHERE", "where images are: {}");
    t.number(
        "stream-block-mib", o.stream_block_mib, 0, {0, 1 << 20}, "MIB",
        "stream: size of a block, in which samples are shuffled; 0: a sixteenth of the images, and at least 32 MiB");
    t.flag("share-device", b.share_device, "let several ranks use one GPU; gradients then go through the host");
    t.flag("no-graph", b.capture, false, "launch the operations of a step one by one, not as one CUDA graph");
    t.flag("one-stream", b.one_stream,
           "compute one operation after the other on GPUs: no weight gradient at the same time as the data gradient");
    t.flag("bf16-gradients", b.bf16_gradients, "sum gradients over GPUs in bf16");
    t.choice("norm-by", b.norm_by, "measured", norm_choices(), "WAY", "how batch norm runs on GPUs: {}");
    t.parsed("tuning", b.tune_seconds, "full", parse_tuning, "WHICH",
             "time the algorithms of each operation, once per kind of GPU or processor: full (all of them), quick "
             "(none), or for at most a time, as in 90s");
    t.choice("conv-by", b.conv_by, "measured", conv_choices(), "WAY",
             "how convolutions run on CPUs; direct where the chosen way does not apply: {}");
    t.choice("bind", b.bind, "auto",
             Choices<bool>{{"auto", true,
                            "divide the cores of a node among its ranks, each near its GPU, unless the "
                            "launcher has bound them"},
                           {"none", false, "leave each rank all cores that the launcher gave it"}},
             "HOW", "{}");
    t.whole("threads", b.threads, 0, {0, 4096}, "N", "CPU threads per rank; 0: this rank's share of the cores");
    t.whole("seed", o.setup.seed, 1, {0, most_steps}, "N", "of initial weights, sample order and augmentation");
}

void add_reports(OptionTable& t, TrainOptions& o, const OptionsOf& command) {
    t.group("reports");
    t.whole("log-interval", o.setup.log_interval, 10, {1, 1'000'000}, "STEPS",
            "steps between progress lines; they come at least every two seconds, if steps are not longer");
    if (command.log_format)
        command.log_format(t);
    else
        t.choice("log-format", o.log_format, "plain", log_formats(), "KIND",
                 "lines of progress: {}; all but plain are those of PyTorch scripts");
    t.text("log-dir", o.log_dir, "", "DIR", "also write each rank's lines to a file there: rank-0000.log, ...");
    t.whole("metrics-every", o.setup.metrics_every, 0, {0, 1'000'000'000}, "STEPS",
            "keep the metrics of every N-th step; 0: of every step, or of as many as make a million rows");
    t.flag("no-environment", o.run.no_environment,
           "record no addresses, job, system and serial numbers; hosts are host-1, ..., paths their last part; kinds "
           "of devices, versions, options and times stay");
    t.flag("dry-run", o.dry_run,
           "print model, memory, buckets and steps, or why a training would be refused, and stop; writes nothing");
    t.text("chip", o.chip, "", "NAME",
           "with --dry-run: a GPU that need not be here (" + chip_names() + "); also lists cuDNN's plans");
    t.flag("print-config", o.print_config, "print the resolved options as a config file, and stop");
}

void add_batches(OptionTable& t, TrainOptions& o, const OptionsOf& command) {
    TrainSetup& s = o.setup;
    t.group("batches and epochs");
    t.count("batch-per-rank", o.batch_per_rank, most_samples, "N", "samples per rank and step");
    const std::string default_note = command.batch_size > 0 ? formatted(" (default %d)", int(command.batch_size)) : "";
    t.count("batch-size", o.batch_size, most_samples, "N",
            "samples per step, of all ranks, split as evenly as possible" + default_note);
    t.whole("virtual-ranks", o.virtual_ranks, 0, {0, 65536}, "V",
            "train as V ranks would, with the same bits on any number of ranks up to V; 0: off");
    t.whole("accumulate", o.accumulate, 0, {0, 65536}, "K",
            "the same as --virtual-ranks with K times the number of ranks; 0: off");
    t.number("epochs", s.epochs, 1, {1e-6, 1e9}, "N",
             "passes over the training split; 9.9 is nine and then 0.9 of the steps of one");
    t.whole("max-steps", s.max_steps, 0, {0, most_steps}, "N", "stop after N steps; 0: no limit");
    t.flag("drop-last", s.drop_last, "leave out the last batch of an epoch if it is not full");
    t.whole("eval-every", s.eval_every, 1, {0, 1'000'000'000}, "EPOCHS",
            "epochs between evaluations; 0: only at the end");
    t.whole("eval-images", o.eval_images, 0, {0, most_steps}, "N", "evaluate on the first N test images; 0: on all");
    t.flag("no-eval", o.no_eval, "no evaluation at all; the test split is not read");
    t.flag("sync-bn", o.backend.sync_bn, "batch norm over the global batch; else over each rank's own samples");
    t.number("bucket-mib", o.bucket_mib, 0, {0, 4096}, "MIB",
             "least size of a gradient bucket; 0: 4, or 16 where NVLink or InfiniBand links GPUs; 4096: one all-reduce "
             "after backward");
}

void add_rates(OptionTable& t, TrainOptions& o) {
    TrainSetup& s = o.setup;
    t.group("optimizer and schedule");
    t.choice("optimizer", o.optimizer, "sgd", optimizer_choices(), "NAME", "{}");
    t.parsed(
        "lr", o.lr, "auto", parse_rate, "RATE",
        "learning rate; 0.1@256: 0.1 for a global batch of 256, and in proportion for others; auto: by optimizer and "
        "batch, and a resumed run keeps its rate");
    t.choice("lr-unit", o.lr_per_kilostep, "step",
             Choices<bool>{{"step", false},
                           {"kilostep", true,
                            "--lr and --weight-decay are per 1,024 samples, and are divided by "
                            "1 + 1 / (1 - momentum), as in airbench"}},
             "UNIT", "{}");
    t.number("norm-shift-lr", s.norm_shift_rate, 1, {1e-6, 1e6}, "F",
             "learning rate of batch norms' shifts, as a multiple of --lr");
    t.number("filter-lr", s.filter_rate, 1, {1e-6, 1e6}, "F",
             "learning rate of convolution weights, as a multiple of --lr");
    t.number("linear-lr", s.linear_rate, 1, {1e-6, 1e6}, "F", "learning rate of linear weights, as a multiple of --lr");
    t.number("muon-momentum", s.optimizer.muon_momentum, 0.6, {0, 1}, "M", "Nesterov momentum of Muon");
    t.number("whitening-bias-epochs", s.whitening_bias_epochs, 0, {0, 1e9}, "N",
             "train the bias of whitening filters for N epochs; 0: in all epochs");
    t.choice("lr-schedule", o.lr_schedule, "auto", schedule_choices(), "KIND", "{}");
    t.number("lr-gamma", s.schedule.gamma, 0.1, {0, 1e6}, "F", "factor at each step or milestone");
    t.number("lr-step-epochs", s.schedule.step_epochs, 30, {1e-6, 1e9}, "N", "step: epochs between two drops");
    t.parsed("lr-milestones", s.schedule.milestones, "", parse_milestones, "E,E",
             "multistep: epochs at which the rate drops");
    t.parsed("lr-points", s.schedule, "", parse_rate_points, "E:F,E:F",
             "linear: factor F of the rate at epoch E, straight lines between; 23% as E: at that share of the run");
    t.parsed("warmup-epochs", o.warmup_epochs, "auto", parse_warmup, "N",
             "linear rise from 0; auto: with --lr auto 5 epochs, but at most 0.3 of the run, else none");
}

void add_rule(OptionTable& t, TrainOptions& o) {
    TrainSetup& s = o.setup;
    t.number("momentum", o.momentum, 0.9, {0, 1}, "M", "of sgd");
    t.flag("nesterov", s.optimizer.nesterov, "of sgd");
    t.number("beta1", s.optimizer.beta1, 0.9, {0, 0.999999}, "B", "of adam");
    t.number("beta2", s.optimizer.beta2, 0.999, {0, 0.99999999}, "B", "of adam");
    t.number("epsilon", s.optimizer.epsilon, 1e-8, {1e-30, 1}, "E", "of adam");
    t.number("weight-decay", s.weight_decay, 0, {0, 1e6}, "D", "L2, added to the gradient");
    t.choice("decay-mode", s.decoupled_decay, "l2",
             Choices<bool>{{"l2", false},
                           {"decoupled", true,
                            "a step at the base rate removes the share D of a weight, whatever that "
                            "rate is"}},
             "MODE", "{}");
    t.choice("decay", s.decay_weights_only, "all",
             Choices<bool>{{"all", false}, {"weights", true, "neither biases nor batch norm"}}, "WHICH",
             "what decays: {}");
    t.number("label-smoothing", o.model.label_smoothing, 0, {0, 1}, "S",
             "share of the target spread over all classes, in training; evaluations do not smooth");
    t.choice("loss", o.model.sum_loss, "mean", Choices<bool>{{"mean", false}, {"sum", true}}, "KIND",
             "how the losses of a batch are combined before gradients are computed: {}");
    t.whole("look-ahead", s.look_ahead, 0, {0, 1'000'000}, "N",
            "every N steps move slow weights towards the weights, and set the weights to them; 0: never");
    t.number("look-ahead-decay", s.look_ahead_decay, 0.95, {0, 1}, "D",
             "the slow weights keep D^N * (steps done / all steps)^3 of themselves");
}

void add_augmentation(OptionTable& t, TrainOptions& o) {
    Augment& a = o.setup.augment;
    t.group("augmentation");
    t.parsed("image-size", o.image_size, "", parse_image_side, "SIDE",
             "the model sees squares of this many pixels, cut out of resized images (default: images as they are); "
             "160:0,192:10: 160 from epoch 0, 192 from epoch 10; bench also makes images up, as in 32x32x3");
    t.whole(
        "resize", o.setup.preprocessing.short_side, 0, {0, 8192}, "SIDE",
        "resize images to this short side and cut out the centre, in evaluations and where training draws no random "
        "windows (default: 8/7 of --image-size)");
    t.flag("random-resized-crop", a.crop, Crop::random_resized, "train on random windows of the images, resized");
    t.parsed("crop-scale", a, "0.08,1", parse_crop_scale, "LOW,HIGH",
             "range of the share of an image's area that a window covers");
    t.parsed("crop-ratio", a, "0.75,1.3333333333333333", parse_crop_ratio, "LOW,HIGH",
             "range of a window's width over its height");
    t.whole("crop-pad", a.pad, 0, {0, 4096}, "N", "pad by N pixels, then crop at random; 0: no crop");
    t.choice("crop-mode", a.reflect, "zero", Choices<bool>{{"zero", false, "black"}, {"reflect", true}}, "MODE",
             "content of the padding: {}");
    t.flag("flip", a.flip, "mirror half of the images left-right");
    t.choice(
        "flip-mode", a.alternate, "random",
        Choices<bool>{{"random", false}, {"alternate", true, "drawn once for each image, then inverted every epoch"}},
        "MODE", "{}");
    t.parsed(
        "color-jitter", a, "0", parse_jitter, "B,C,S,H",
        "change brightness, contrast and saturation of training images by random factors, from 1 - B to 1 + B and so "
        "on, and the hue by up to H turns, at most 0.5; in random order; 0: off");
    t.parsed("mixup", a.mixup, "0", parse_mixing, "A",
             "mix each training image with another of its batch; shares are drawn from Beta(A, A), A up to 1; 0: off");
    t.parsed(
        "cutmix", a.cutmix, "0", parse_mixing, "A",
        "as --mixup, but put a box of the other image into the image; with both, each image has one of them; 0: off");
    t.choice("tta", o.setup.tta, "none", tta_choices(), "VIEWS", "evaluate on the mean of several views: {}");
    t.parsed("mean", o.mean, "", parse_numbers, "M,M,M", "channel means of pixel / 255 (default: the data set's own)");
    t.parsed("stddev", o.stddev, "", parse_deviations, "S,S,S",
             "channel deviations of pixel / 255 (default: the data set's own)");
}

OptionTable table_of(TrainOptions& o, const OptionsOf& command) {
    OptionTable t;
    t.group("data and model");
    add_files(t, o, command);
    add_device(t, o);
    add_reports(t, o, command);
    add_batches(t, o, command);
    add_rates(t, o);
    add_rule(t, o);
    add_augmentation(t, o);
    add_fine_tuning(t, o.tuning);
    if (command.more) {
        t.group(command.command);
        command.more(t);
    }
    return t;
}

/// Refuses missing options, before anything else is checked.
void check_present(ParsedOptions& parsed, const OptionsOf& command) {
    TrainOptions& o = parsed.options;
    if (command.needs_data && o.data.empty())
        fail(Exit::usage, "--data is missing: the folder of a data set made by 'convoy convert'");
    const bool given = parsed.given.contains("batch-size") || parsed.given.contains("batch-per-rank");
    if (!given && command.batch_size > 0) {
        o.batch_size = command.batch_size;
        set_config_value(parsed.resolved, "batch-size", std::to_string(o.batch_size));
    }
    if ((o.batch_per_rank > 0) == (o.batch_size > 0) || o.batch_per_rank < 0 || o.batch_size < 0)
        fail(Exit::usage, "give exactly one of --batch-per-rank and --batch-size, a positive number of samples");
}

}  // namespace

TrainOptions::TrainOptions() = default;

const Choices<LogFormat>& log_formats() {
    static const Choices<LogFormat> choices = {{"plain", LogFormat::plain},
                                               {"pytorch-example", LogFormat::pytorch_example},
                                               {"mnist-linear", LogFormat::mnist_linear},
                                               {"pyramidnet", LogFormat::pyramidnet},
                                               {"imagenet", LogFormat::imagenet}};
    return choices;
}

ConfigPairs default_options() {
    TrainOptions unused;
    ConfigPairs pairs;
    for (const auto& [name, value] : defaults_of(table_of(unused, {}).description()))
        pairs.emplace_back(name, shortest_text(value.value()));
    return pairs;
}

OptionGroups option_groups(const OptionsOf& command) {
    TrainOptions unused;
    return table_of(unused, command).groups(command.without);
}

ParsedOptions parse_train_options(const std::vector<std::string>& args, const OptionsOf& command) {
    ParsedOptions parsed;
    TrainOptions& o = parsed.options;
    OptionTable table = table_of(o, command);
    const po::options_description all = table.description();
    const auto left_out = [&](const std::string& name) { return std::ranges::count(command.without, name) > 0; };
    for (const std::string& arg : args)
        if (const std::string name = arg.substr(0, arg.find('=')); name.starts_with("--") && left_out(name.substr(2)))
            fail(Exit::usage, name + ": has no meaning for " + command.command + "; leave it out, or see --help");
    const po::options_description own = table.description(command.without);
    const std::vector<std::set<std::string>> alternatives = {{"batch-size", "batch-per-rank"}};
    ConfiguredValues configured = parse_with_config(all, own, args, alternatives, command_line_options());
    const po::variables_map& values = configured.values;
    if (o.data.empty() || (o.batch_per_rank == 0 && o.batch_size == 0))
        parsed.note = take_recorded(command.recorded, all, o, alternatives, configured);
    const po::variables_map defaults = defaults_of(all);
    const std::set<std::string> not_resolved = {"print-config", "dry-run", "chip", "config"};
    for (const auto& option : all.options()) {
        const std::string& name = option->long_name();
        if (left_out(name)) continue;
        if (const auto& v = values[name]; !v.empty() && !v.defaulted())
            parsed.given[name] = {
                .file = configured.from_file[name],
                .value = shortest_text(v.value()),
                .default_value = defaults.count(name) > 0 ? shortest_text(defaults[name].value()) : ""};
        if (!not_resolved.contains(name)) parsed.resolved.emplace_back(name, shortest_text(values[name].value()));
    }
    check_present(parsed, command);
    table.read(values);
    derive_fields(o);
    check_together(o);
    if (command.needs_data && o.image_size.images.h > 0)
        fail(Exit::usage, "--image-size " + values["image-size"].as<std::string>() +
                              ": write the side of a square in pixels; only bench makes images up");
    check_effects(parsed);
    return parsed;
}

}  // namespace convoy
