// The table of options of `convoy train`, and what their texts mean; train_rules.cpp has those of the recipe.
#include "cli/train_options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include "backend/chips.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/option_effects.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

template <class T> auto value(T& to, T standard, const char* name) { return po::value<T>(&to)->default_value(standard)->value_name(name); }
auto number(double& to, double standard, const char* name) {
    std::ostringstream text;
    text << standard;
    return po::value<double>(&to)->default_value(standard, text.str())->value_name(name);
}
auto flag(bool& to) { return po::value<bool>(&to)->default_value(false, "false")->implicit_value(true, "true")->value_name("BOOL"); }
auto text(std::string& to, const char* standard, const char* name) { return po::value<std::string>(&to)->default_value(standard)->value_name(name); }

po::options_description table(TrainOptions& o, const OptionsOf& command) {
    po::options_description all("options of " + command.command, 140), run("run"), batches("batches and epochs"), rule("optimizer and schedule"), input("augmentation");
    run.add_options()                                                                                              //
        ("data", text(o.data, "", "DIR"), "data set of HDF5 shards, made by 'convoy convert'")                     //
        ("model", text(o.model, "resnet18", "NAME"), "pyramidnet, pyramidnet110, resnet18, resnet50, airbench94, airbench94-muon, mnist-conv, mnist-linear or linear")  //
        ("stem", text(o.stem, "auto", "KIND"), "of the resnets: imagenet, cifar, or auto by image size")           //
        ("config", po::value<std::string>()->value_name("FILE"), "recipe: a file of key = value lines, whose keys are these options; flags win over it")  //
        ("output", text(o.output, "", "DIR"), command.output)                                                      //
        ("overwrite", flag(o.overwrite), "replace the run that is in --output")                                    //
        ("resume", text(o.resume, "none", "WHAT"), "none, auto (the newest sound checkpoint in --output, if any), or a checkpoint file")  //
        ("checkpoint-every", text(o.checkpoint_every, "10m", "WHEN"), "500 (steps), 10m or 1h30m (time), 2e (epochs), or none; also after the best evaluation, at the end and when asked")  //
        ("keep", value<int64_t>(o.keep, 2, "N"), "newest checkpoints to keep, besides the best")                   //
        ("time-limit", text(o.time_limit, "", "TIME"), "checkpoint and stop (exit 85) in time, as in 1h50m; by default Slurm's limit")  //
        ("strict-io", flag(o.strict_io), "end the run when metrics or a checkpoint cannot be written; else warn and train on")  //
        ("publish-every", text(o.publish_every, "5s", "TIME"), "renew metrics.h5 at most so often; less often where it takes more than 2 % of the time")  //
        ("on-nan", text(o.on_nan, "stop", "WHAT"), "when loss or gradients are not finite: stop (exit 4), skip the update, or rollback to the last checkpoint at half the rate")  //
        ("watchdog", text(o.watchdog, "300s", "TIME"), "end the job (exit 6) when a rank is in one operation for so long; none: never")  //
        ("device", text(o.device, "auto", "KIND"), "auto, cuda or cpu")                                            //
        ("precision", text(o.precision, "f32", "TYPE"), "of activations and gradients: f32, tf32, bf16 or f16; on CPUs f32 or bf16")  //
        ("devices", text(o.devices, "", "I,J"), "GPUs that the ranks of a node take, counted among the visible ones; all by default")  //
        ("share-device", flag(o.share_device), "let several ranks use one GPU; gradients then go through the host")  //
        ("no-graph", flag(o.no_graph), "launch the operations of a step one by one, not as one CUDA graph")        //
        ("bf16-gradients", flag(o.bf16_gradients), "sum gradients over GPUs in bf16")                              //
        ("bind", text(o.bind, "auto", "HOW"), "auto: the ranks of a node share its cores out, each near its GPU, unless the launcher did; none: leave that")  //
        ("threads", value<int64_t>(o.threads, 0, "N"), "CPU threads a rank; 0: this rank's share of the cores")    //
        ("seed", value<int64_t>(o.seed, 1, "N"), "of initial weights, sample order and augmentation")              //
        ("log-interval", value<int64_t>(o.log_interval, 10, "STEPS"), "steps between progress lines; at most two seconds, or a step")  //
        ("metrics-every", value<int64_t>(o.metrics_every, 0, "STEPS"), "keep the metrics of every N-th step; 0: of every step, or of as many as make a million rows")  //
        ("dry-run", flag(o.dry_run), "print model, memory, buckets and steps, refuse what a training would, and stop: reads no image, writes nothing")  //
        ("chip", text(o.chip, "", "NAME"), "with --dry-run: a GPU that need not be here, h100 or a100; also lists cuDNN's plans")  //
        ("print-config", flag(o.print_config), "print the resolved options as a config file, and stop")            //
        ("help", flag(o.help), "print this");
    batches.add_options()                                                                                          //
        ("batch-per-rank", value<int64_t>(o.batch_per_rank, 0, "N"), "samples a rank a step")                      //
        ("batch-size", value<int64_t>(o.batch_size, 0, "N"), "samples of all ranks a step, split as evenly as possible")  //
        ("epochs", number(o.epochs, 1, "N"), "passes over the training split; 9.9 is nine and then 0.9 of the steps of one")  //
        ("max-steps", value<int64_t>(o.max_steps, 0, "N"), "stop after N steps; 0: no limit")                      //
        ("drop-last", flag(o.drop_last), "leave out the last batch of an epoch if it is not full")                 //
        ("eval-every", value<int64_t>(o.eval_every, 1, "EPOCHS"), "epochs between evaluations; 0: only at the end")  //
        ("eval-images", value<int64_t>(o.eval_images, 0, "N"), "evaluate on the first N test images; 0: on all")   //
        ("no-eval", flag(o.no_eval), "no evaluation at all; the test split is not read")                           //
        ("sync-bn", flag(o.sync_bn), "batch norm over the global batch; else over each rank's own samples")        //
        ("bucket-mib", number(o.bucket_mib, 4, "MIB"), "least size of a gradient bucket; 4096: one all-reduce behind backward");
    rule.add_options()                                                                                             //
        ("optimizer", text(o.optimizer, "sgd", "NAME"), "sgd, adam, or muon: convolution weights by Muon, the rest by sgd")  //
        ("lr", text(o.lr, "0.1", "RATE"), "learning rate, or auto: global batch / 1000")                           //
        ("lr-unit", text(o.lr_unit, "step", "UNIT"), "step, or kilostep: --lr and --weight-decay are for 1,024 samples, and divided by the 1 + 1 / (1 - momentum) that nesterov multiplies steps with")  //
        ("norm-shift-lr", number(o.norm_shift_lr, 1, "F"), "rate of batch norms' shifts, times the rate")          //
        ("filter-lr", number(o.filter_lr, 1, "F"), "rate of convolution weights, times the rate")                  //
        ("linear-lr", number(o.linear_lr, 1, "F"), "rate of linear weights, times the rate")                       //
        ("muon-momentum", number(o.muon_momentum, 0.6, "M"), "of Muon, Nesterov's")                                //
        ("whitening-bias-epochs", number(o.whitening_bias_epochs, 0, "N"), "train the bias of whitening filters for N epochs; 0: throughout")  //
        ("lr-schedule", text(o.lr_schedule, "constant", "KIND"), "constant, step, multistep, cosine or linear")    //
        ("lr-gamma", number(o.lr_gamma, 0.1, "F"), "factor at each step or milestone")                             //
        ("lr-step-epochs", number(o.lr_step_epochs, 30, "N"), "step: epochs between two drops")                    //
        ("lr-milestones", text(o.lr_milestones, "", "E,E"), "multistep: epochs at which the rate drops")           //
        ("lr-points", text(o.lr_points, "", "E:F,E:F"), "linear: factor F of the rate at epoch E, straight lines between; 23% as E: at that share of the run")  //
        ("warmup-epochs", number(o.warmup_epochs, 0, "N"), "linear rise from 0")                                   //
        ("momentum", number(o.momentum, 0.9, "M"), "of sgd")                                                       //
        ("nesterov", flag(o.nesterov), "of sgd")                                                                   //
        ("beta1", number(o.beta1, 0.9, "B"), "of adam")                                                            //
        ("beta2", number(o.beta2, 0.999, "B"), "of adam")                                                          //
        ("epsilon", number(o.epsilon, 1e-8, "E"), "of adam")                                                       //
        ("weight-decay", number(o.weight_decay, 0, "D"), "L2, added to the gradient")                              //
        ("decay-mode", text(o.decay_mode, "l2", "MODE"), "l2, or decoupled: divided by the parameter's base rate, which it then does not depend on")  //
        ("decay", text(o.decay, "all", "WHICH"), "what decays: all, or weights (neither biases nor batch norm)")   //
        ("label-smoothing", number(o.label_smoothing, 0, "S"), "share of the target spread over all classes, in training; evaluations do not smooth")  //
        ("loss", text(o.loss, "mean", "KIND"), "what gradients are of: the mean over the batch, or the sum")       //
        ("look-ahead", value<int64_t>(o.look_ahead, 0, "STEPS"), "steps between two averages of all weights, which they go on from; 0: none")  //
        ("look-ahead-decay", number(o.look_ahead_decay, 0.95, "D"), "the average keeps D^STEPS times the cubed share of the run that is done");
    input.add_options()                                                                                            //
        ("crop-pad", value<int64_t>(o.crop_pad, 0, "N"), "pad by N pixels, then crop at random; 0: no crop")       //
        ("crop-mode", text(o.crop_mode, "zero", "MODE"), "what the padding shows: zero (black) or reflect")        //
        ("flip", flag(o.flip), "mirror half of the images left-right")                                             //
        ("flip-mode", text(o.flip_mode, "random", "MODE"), "random, or alternate: drawn once an image, and turned over every epoch")  //
        ("tta", text(o.tta, "none", "VIEWS"), "evaluate on the mean of several views: none, mirror, or full (mirrored and shifted by a pixel: 6)")  //
        ("mean", text(o.mean, "", "M,M,M"), "channel means of pixel / 255 (default: the data set's own)")          //
        ("stddev", text(o.stddev, "", "S,S,S"), "channel deviations of pixel / 255 (default: the data set's own)");
    all.add(run).add(batches).add(rule).add(input);
    if (!command.more.options().empty()) all.add(command.more);
    return all;
}

void in_range(const char* option, double v, double low, double high) {
    if (v >= low && v <= high) return;
    std::ostringstream message;
    message << "--" << option << " " << v << ": must be from " << low << " to " << high;
    fail(Exit::usage, message.str());
}

void one_of(const char* option, const std::string& v, const std::vector<std::string>& allowed) {
    if (std::find(allowed.begin(), allowed.end(), v) != allowed.end()) return;
    std::string list;
    for (size_t i = 0; i < allowed.size(); ++i) list += (i == 0 ? "" : i + 1 < allowed.size() ? ", " : " or ") + allowed[i];
    fail(Exit::usage, "--" + std::string(option) + " " + v + " is unknown; choose " + list);
}

void check_chip(const TrainOptions& o) {
    if (o.chip.empty()) return;
    if (!o.dry_run) fail(Exit::usage, "--chip is for --dry-run: a training takes a GPU that is there; leave it out, or add --dry-run");
    if (o.device == "cpu") fail(Exit::usage, "--chip " + o.chip + " is a GPU, and --device cpu has none; leave one of them out");
    find_chip(o.chip);
}

void check(const TrainOptions& o, const OptionsOf& command) {
    if (command.needs_data && o.data.empty()) fail(Exit::usage, "--data is missing: the folder of a data set made by 'convoy convert'");
    if ((o.batch_per_rank > 0) == (o.batch_size > 0) || o.batch_per_rank < 0 || o.batch_size < 0)
        fail(Exit::usage, "give exactly one of --batch-per-rank and --batch-size, a positive number of samples");
    in_range("batch-per-rank", double(o.batch_per_rank), 0, 1 << 24);
    in_range("batch-size", double(o.batch_size), 0, 1 << 24);
    in_range("epochs", o.epochs, 1e-6, 1e9);
    in_range("max-steps", double(o.max_steps), 0, 1e15);
    in_range("threads", double(o.threads), 0, 4096);
    in_range("seed", double(o.seed), 0, 1e15);
    in_range("keep", double(o.keep), 1, 1e6);
    if (o.resume == "auto" && o.output.empty()) fail(Exit::usage, "--resume auto needs --output: the run folder to go on with");
    if (o.resume.empty()) fail(Exit::usage, "--resume is empty; choose none, auto or a checkpoint file");
    checkpoint_clock_of(o);
    time_limit_of(o);
    watchdog_of(o);
    publish_every_of(o);
    in_range("log-interval", double(o.log_interval), 1, 1e6);
    in_range("metrics-every", double(o.metrics_every), 0, 1e9);
    in_range("eval-every", double(o.eval_every), 0, 1e9);
    in_range("eval-images", double(o.eval_images), 0, 1e15);
    in_range("bucket-mib", o.bucket_mib, 0.001, 4096);
    in_range("momentum", o.momentum, 0, 1);
    in_range("beta1", o.beta1, 0, 0.999999);
    in_range("beta2", o.beta2, 0, 0.99999999);
    in_range("epsilon", o.epsilon, 1e-30, 1);
    in_range("weight-decay", o.weight_decay, 0, 1e6);
    in_range("warmup-epochs", o.warmup_epochs, 0, 1e9);
    in_range("lr-gamma", o.lr_gamma, 0, 1e6);
    in_range("lr-step-epochs", o.lr_step_epochs, 1e-6, 1e9);
    in_range("label-smoothing", o.label_smoothing, 0, 1);
    in_range("crop-pad", double(o.crop_pad), 0, 4096);
    one_of("stem", o.stem, {"auto", "imagenet", "cifar"});
    one_of("device", o.device, {"auto", "cuda", "cpu"});
    one_of("bind", o.bind, {"auto", "none"});
    check_chip(o);
    backend_options_of(o);
    one_of("optimizer", o.optimizer, {"sgd", "adam", "muon"});
    one_of("on-nan", o.on_nan, {"stop", "skip", "rollback"});
    one_of("decay", o.decay, {"all", "weights"});
    one_of("decay-mode", o.decay_mode, {"l2", "decoupled"});
    one_of("lr-unit", o.lr_unit, {"step", "kilostep"});
    one_of("loss", o.loss, {"mean", "sum"});
    one_of("flip-mode", o.flip_mode, {"random", "alternate"});
    one_of("tta", o.tta, {"none", "mirror", "full"});
    in_range("norm-shift-lr", o.norm_shift_lr, 1e-6, 1e6);
    in_range("filter-lr", o.filter_lr, 1e-6, 1e6);
    in_range("linear-lr", o.linear_lr, 1e-6, 1e6);
    in_range("muon-momentum", o.muon_momentum, 0, 1);
    in_range("whitening-bias-epochs", o.whitening_bias_epochs, 0, 1e9);
    in_range("look-ahead", double(o.look_ahead), 0, 1e6);
    in_range("look-ahead-decay", o.look_ahead_decay, 0, 1);
    one_of("crop-mode", o.crop_mode, {"zero", "reflect"});
    schedule_of(o, 1);
    numbers_of("mean", o.mean);
    for (double s : numbers_of("stddev", o.stddev)) in_range("stddev", s, 1e-6, 1e6);
}

/// Shortest text that reads back as the same number.
std::string text_of(const boost::any& v) {
    if (const auto* s = boost::any_cast<std::string>(&v)) return *s;
    if (const auto* i = boost::any_cast<int64_t>(&v)) return std::to_string(*i);
    if (const auto* b = boost::any_cast<bool>(&v)) return *b ? "true" : "false";
    const double d = boost::any_cast<double>(v);
    for (int digits = 6;; ++digits) {
        std::ostringstream out;
        out.precision(digits);
        out << d;
        if (digits >= 17 || std::stod(out.str()) == d) return out.str();
    }
}

}  // namespace

ParsedOptions parse_train_options(const std::vector<std::string>& args, const OptionsOf& command) {
    ParsedOptions parsed;
    TrainOptions& o = parsed.options;
    const po::options_description all = table(o, command);
    const auto left_out = [&](const std::string& name) { return std::find(command.without.begin(), command.without.end(), name) != command.without.end(); };
    for (const std::string& arg : args)
        if (const std::string name = arg.substr(0, arg.find('=')); name.starts_with("--") && left_out(name.substr(2)))
            fail(Exit::usage, name + ": has no meaning for " + command.command + "; leave it out, or see --help");
    const ConfiguredValues configured = parse_with_config(all, args, {{"batch-size", "batch-per-rank"}});
    const po::variables_map& values = configured.values;
    const po::variables_map standard = defaults_of(all);
    for (const auto& option : all.options()) {
        const std::string& name = option->long_name();
        if (const auto& v = values[name]; !v.empty() && !v.defaulted() && !left_out(name))
            parsed.given[name] = {configured.from_file.contains(name) ? values["config"].as<std::string>() : "", text_of(v.value()),
                                  standard.count(name) > 0 ? text_of(standard[name].value()) : ""};
        if (name == "help" || name == "print-config" || name == "dry-run" || name == "chip" || name == "config" || left_out(name)) continue;
        parsed.resolved.emplace_back(name, text_of(values[name].value()));
    }
    if (o.help) {
        std::ostringstream out;
        out << command.usage << "\n";
        if (command.without.empty()) {
            out << all;
        } else {  // in one list, since groups cannot be taken apart
            po::options_description shown("options of " + command.command, 140);
            for (const auto& option : all.options())
                if (!left_out(option->long_name())) shown.add(option);
            out << shown;
        }
        parsed.help = out.str();
        return parsed;
    }
    check(o, command);
    check_effects(parsed);
    return parsed;
}

std::vector<double> numbers_of(const std::string& option, const std::string& list) {
    std::vector<double> numbers;
    std::istringstream in(list);
    for (std::string item; std::getline(in, item, ',');) {
        size_t used = 0;
        double v = 0;
        try {
            v = std::stod(item, &used);
        } catch (const std::exception&) {
            used = std::string::npos;
        }
        if (used != item.size() || !std::isfinite(v)) fail(Exit::usage, "--" + option + " " + list + ": '" + item + "' is not a number; write numbers separated by commas");
        numbers.push_back(v);
    }
    return numbers;
}

CheckpointClock checkpoint_clock_of(const TrainOptions& o) {
    const std::string& text = o.checkpoint_every;
    CheckpointClock clock;
    if (text == "none") return clock;
    char* end = nullptr;
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    const std::string rest = end;
    if (end != text.c_str() && whole > 0 && rest.empty()) {
        clock.steps = whole;
    } else if (end != text.c_str() && whole > 0 && rest == "e") {
        clock.epochs = whole;
    } else if (clock.seconds = parse_duration(text).value_or(0); clock.seconds <= 0) {
        fail(Exit::usage,
             "--checkpoint-every " + text + ": write 500 (steps), 10m or 1h30m (time, to 8760h), 2e (epochs), or none");
    }
    return clock;
}

double time_limit_of(const TrainOptions& o) {
    if (!o.time_limit.empty()) {
        const double seconds = parse_duration(o.time_limit).value_or(0);
        if (seconds <= 0)
            fail(Exit::usage, "--time-limit " + o.time_limit + ": write a time to 8760h, as in 1h50m, 90m or 300s");
        return seconds;
    }
    const char* variable = std::getenv("SLURM_JOB_END_TIME");  // seconds since 1970
    if (!variable) return 0;
    char* end = nullptr;
    const double seconds = std::strtod(variable, &end);
    if (end == variable || *end || !std::isfinite(seconds))
        fail(Exit::usage, std::string("SLURM_JOB_END_TIME=") + variable + " is not a time in seconds since 1970; give --time-limit");
    return std::clamp(seconds - double(std::time(nullptr)), 1.0, longest_duration);
}

BackendOptions backend_options_of(const TrainOptions& o) {
    BackendOptions b{int(o.threads), o.sync_bn, parse_precision(o.precision)};
    for (double d : numbers_of("devices", o.devices)) {
        if (d < 0 || d != std::floor(d) || d > 1024) fail(Exit::usage, "--devices " + o.devices + ": write device numbers separated by commas, as in 0,1");
        b.devices.push_back(int(d));
    }
    b.bind = o.bind == "auto";
    b.share_device = o.share_device;
    b.capture = !o.no_graph;
    b.bf16_gradients = o.bf16_gradients;
    return b;
}

double watchdog_of(const TrainOptions& o) {
    if (o.watchdog == "none") return 0;
    const double seconds = parse_duration(o.watchdog).value_or(0);
    if (seconds < 1)
        fail(Exit::usage, "--watchdog " + o.watchdog + ": write a time from 1s to 8760h, as in 300s or 10m, or none");
    return seconds;
}

double publish_every_of(const TrainOptions& o) {
    const double seconds = parse_duration(o.publish_every).value_or(0);
    if (seconds <= 0 || seconds > 86400)
        fail(Exit::usage, "--publish-every " + o.publish_every + ": write a time of at most 24h, as in 5s or 1m");
    return seconds;
}

}  // namespace convoy
