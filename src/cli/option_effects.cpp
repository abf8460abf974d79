#include "cli/option_effects.h"

#include <algorithm>
#include <functional>

#include "backend/chips.h"
#include "backend/gpu/precisions.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/train_setup.h"

namespace convoy {
namespace {

struct Need {
    const char* option;
    bool holds;                   ///< the option has an effect
    std::string otherwise;        ///< the condition under which it has no effect: "without --flip"
    std::vector<std::string> by;  ///< the options that decide
};

/// Returns true if the command line gives the option, not a file.
bool is_flag(const ParsedOptions& parsed, const std::string& name) {
    const auto found = parsed.given.find(name);
    return found != parsed.given.end() && found->second.file.empty();
}

/// Returns the first option that was given although it has no effect; null if there is none.
const Need* first_pointless(const ParsedOptions& parsed, const std::vector<Need>& needs,
                            const std::function<bool(const Need&, const Given&)>& refused) {
    for (const Need& need : needs) {
        const auto found = parsed.given.find(need.option);
        if (need.holds || found == parsed.given.end() || found->second.value == found->second.default_value) continue;
        if (refused(need, found->second)) return &need;
    }
    return nullptr;
}

[[noreturn]] void refuse(const Need& need, const std::string& where) {
    fail(Exit::usage, where + need.option + ": has no effect " + need.otherwise + "; leave it out");
}

void check_flags(const ParsedOptions& parsed, const std::vector<Need>& needs) {
    if (const Need* need =
            first_pointless(parsed, needs, [](const Need&, const Given& given) { return given.file.empty(); }))
        refuse(*need, "--");
}

/// Refuses --chip without --dry-run or with --device cpu, and an unknown chip.
void check_chip(const TrainOptions& o) {
    if (o.chip.empty()) return;
    if (!o.dry_run)
        fail(Exit::usage,
             "--chip is for --dry-run: a training takes a GPU that is there; leave it out, or add --dry-run");
    if (o.device == "cpu")
        fail(Exit::usage, "--chip " + o.chip + " is a GPU, and --device cpu has none; leave one of them out");
    cuda::check_precision(o.backend.precision, find_chip(o.chip).capability, "--chip " + o.chip);
}

}  // namespace

void check_together(const TrainOptions& o) {
    if (o.resume.newest && o.output.empty())
        fail(Exit::usage, "--resume auto needs --output: the run folder to continue");
    check_chip(o);
    if (o.random_windows() && o.setup.augment.pad > 0)
        fail(Exit::usage, "--random-resized-crop and --crop-pad both crop; --crop-pad 0 switches a recipe's off");
    if (const int resize = o.setup.preprocessing.short_side; resize > 0 && resize < o.image_size.side)
        fail(Exit::usage, formatted("--resize %d is less than --image-size %d: there would be no centre of that size",
                                    resize, o.image_size.side));
    if (o.bucket_mib > 0 && o.bucket_mib < 0.001)
        fail(Exit::usage, formatted("--bucket-mib %g is less than 0.001; 0 means by the links", o.bucket_mib));
    if (o.lr_per_kilostep && o.optimizer != OptimizerChoice::adam) {
        if (!o.lr) fail(Exit::usage, "--lr auto has no unit; give a number, or leave --lr-unit kilostep out");
        if (o.momentum >= 1) fail(Exit::usage, "--lr-unit kilostep needs a --momentum below 1");
    }
    if (o.model.sum_loss && !o.lr)
        fail(Exit::usage, "--lr auto is for --loss mean; give a number, or leave --loss sum out");
    if (o.setup.decoupled_decay && o.lr && o.lr->rate <= 0)
        fail(Exit::usage, "--decay-mode decoupled divides by --lr, which is 0");
    if (o.lr_schedule == Schedule::multistep && o.setup.schedule.milestones.empty())
        fail(Exit::usage, "--lr-schedule multistep needs --lr-milestones, as in 60,120");
    if (o.lr_schedule == Schedule::linear && o.setup.schedule.points.empty())
        fail(Exit::usage, "--lr-schedule linear needs --lr-points, as in 0:0.2,2:1,10:0");
}

void check_effects(ParsedOptions& parsed) {
    const TrainOptions& o = parsed.options;
    if (o.setup.on_nan == OnNan::rollback && !o.setup.checkpoint_at_end)
        fail(Exit::usage,
             "--on-nan rollback goes back to a checkpoint, and --checkpoint-every none takes none; leave "
             "one of them out");
    const bool adam = o.optimizer == OptimizerChoice::adam, sgd = !adam;
    const bool step = o.lr_schedule == Schedule::step, multistep = o.lr_schedule == Schedule::multistep;
    const auto of_schedule = [&](const char* option, bool holds, const char* kind) {
        return Need{option, holds, std::string("without --lr-schedule ") + kind, {"lr-schedule"}};
    };
    const auto of_optimizer = [&](const char* option, bool holds, const char* kind) {
        return Need{option, holds, std::string("without --optimizer ") + kind, {"optimizer"}};
    };
    const std::vector<Need> needs = {
        of_schedule("lr-milestones", multistep, "multistep"),
        of_schedule("lr-points", o.lr_schedule == Schedule::linear, "linear"),
        of_schedule("lr-step-epochs", step, "step"),
        of_schedule("lr-gamma", step || multistep, "step or multistep"),
        of_optimizer("momentum", sgd, "sgd or muon"),
        of_optimizer("nesterov", sgd, "sgd or muon"),
        of_optimizer("lr-unit", sgd, "sgd or muon"),
        of_optimizer("beta1", adam, "adam"),
        of_optimizer("beta2", adam, "adam"),
        of_optimizer("epsilon", adam, "adam"),
        of_optimizer("muon-momentum", o.optimizer == OptimizerChoice::muon, "muon"),
        {"decay", o.setup.weight_decay > 0, "without --weight-decay", {"weight-decay"}},
        {"decay-mode", o.setup.weight_decay > 0, "without --weight-decay", {"weight-decay"}},
        {"look-ahead-decay", o.setup.look_ahead > 0, "without --look-ahead", {"look-ahead"}},
        {"crop-scale", o.random_windows(), "without --random-resized-crop", {"random-resized-crop"}},
        {"crop-ratio", o.random_windows(), "without --random-resized-crop", {"random-resized-crop"}},
        {"crop-mode", o.setup.augment.pad > 0, "without --crop-pad", {"crop-pad"}},
        {"flip-mode", o.setup.augment.flip, "without --flip", {"flip"}},
        {"on-audit", o.setup.audit_every > 0, "without --audit", {"audit"}},
        {"eval-every", !o.no_eval, "with --no-eval", {"no-eval"}},
        {"eval-images", !o.no_eval, "with --no-eval", {"no-eval"}},
        {"tta", !o.no_eval, "with --no-eval", {"no-eval"}},
        {"overwrite", !o.resume.newest, "with --resume auto, which continues the run that is there", {"resume"}},
        {"stream-block-mib",
         o.placement.placement == Placement::automatic || o.placement.placement == Placement::stream,
         "without --data-placement stream",
         {"data-placement"}},
        {"stem", o.model.name.starts_with("resnet"), "without a resnet (--model)", {"model"}},
        {"init-skip", !o.tuning.from.empty(), "without --init-from", {"init-from"}},
        {"freeze-batchnorm", !o.tuning.freeze.empty(), "without --freeze", {"freeze"}}};
    const auto refused = [&](const Need& need, const Given& given) {
        const bool by_flag =
            std::any_of(need.by.begin(), need.by.end(), [&](const std::string& name) { return is_flag(parsed, name); });
        if (given.file.empty() || !by_flag) return true;
        for (auto& [name, value] : parsed.resolved)
            if (name == need.option) value = given.default_value;
        return false;
    };
    if (const Need* need = first_pointless(parsed, needs, refused)) {
        const std::string& file = parsed.given.at(need->option).file;
        refuse(*need, file.empty() ? "--" : file + ": ");
    }
}

void check_effects_on_model(const ParsedOptions& parsed, const Graph& graph) {
    const auto has = [&](ParamGroup group) {
        return std::any_of(graph.params.begin(), graph.params.end(), [&](const Param& p) { return p.group == group; });
    };
    const bool norms = std::any_of(graph.ops.begin(), graph.ops.end(),
                                   [](const Op& op) { return std::holds_alternative<BatchNorm>(op); });
    const auto of_model = [&](const char* option, bool holds, const char* what) {
        return Need{option, holds, "with --model " + parsed.options.model.name + ", which has no " + what, {"model"}};
    };
    check_flags(parsed, {of_model("norm-shift-lr", has(ParamGroup::norm_shift), "batch norm"),
                         of_model("filter-lr", has(ParamGroup::filter), "convolutions"),
                         of_model("conv-by", has(ParamGroup::filter), "convolutions"),
                         of_model("linear-lr", has(ParamGroup::linear), "linear layers"),
                         of_model("whitening-bias-epochs", has(ParamGroup::whitening_bias), "whitening filters"),
                         of_model("frozen", has(ParamGroup::whitening_bias), "whitening filters"),
                         of_model("sync-bn", norms, "batch norm")});
}

void check_effects_on_device(const ParsedOptions& parsed, const Backend& backend) {
    const bool gpu = !backend.facts().synchronous;
    const auto of_gpus = [&](const char* option) {
        return Need{option, gpu, "on CPUs, and this runs on " + backend.facts().device + " (--device)", {"device"}};
    };
    check_flags(parsed, {{"threads", !gpu, "on GPUs (--device)", {"device"}},
                         of_gpus("devices"),
                         of_gpus("share-device"),
                         {"data-placement",
                          gpu || parsed.options.placement.placement != Placement::node,
                          "as node on CPUs, where it is the same as replicate",
                          {"device"}},
                         of_gpus("no-graph"),
                         of_gpus("one-stream"),
                         of_gpus("bf16-gradients"),
                         of_gpus("norm-by"),
                         {"conv-by", !gpu, "on GPUs (--device)", {"device"}}});
}

}  // namespace convoy
