#include "cli/option_effects.h"

#include <algorithm>

#include "base/error.h"

namespace convoy {
namespace {

struct Need {
    const char* option;
    bool holds;
    std::string otherwise;        ///< where it has no effect: "without --flip"
    std::vector<std::string> by;  ///< the options that decide
};

void check(const ParsedOptions& parsed, const std::vector<Need>& needs) {
    const auto flag = [&](const std::string& name) {
        const auto found = parsed.given.find(name);
        return found != parsed.given.end() && found->second.file.empty();
    };
    for (const Need& need : needs) {
        const auto found = parsed.given.find(need.option);
        if (need.holds || found == parsed.given.end() || found->second.standard) continue;
        const std::string& file = found->second.file;
        if (!file.empty() && std::any_of(need.by.begin(), need.by.end(), flag)) continue;
        fail(Exit::usage, (file.empty() ? "--" : file + ": ") + need.option + ": has no effect " + need.otherwise + "; leave it out");
    }
}

}  // namespace

void check_effects(const ParsedOptions& parsed) {
    const TrainOptions& o = parsed.options;
    const bool sgd = o.optimizer != "adam", adam = o.optimizer == "adam", drops = o.lr_schedule == "step" || o.lr_schedule == "multistep";
    const auto of_schedule = [&](const char* option, bool holds, const char* kind) {
        return Need{option, holds, std::string("without --lr-schedule ") + kind, {"lr-schedule"}};
    };
    const auto of_optimizer = [&](const char* option, bool holds, const char* kind) {
        return Need{option, holds, std::string("without --optimizer ") + kind, {"optimizer"}};
    };
    check(parsed, {of_schedule("lr-milestones", o.lr_schedule == "multistep", "multistep"),
                   of_schedule("lr-points", o.lr_schedule == "linear", "linear"),
                   of_schedule("lr-step-epochs", o.lr_schedule == "step", "step"),
                   of_schedule("lr-gamma", drops, "step or multistep"),
                   of_optimizer("momentum", sgd, "sgd or muon"),
                   of_optimizer("nesterov", sgd, "sgd or muon"),
                   of_optimizer("lr-unit", sgd, "sgd or muon"),
                   of_optimizer("beta1", adam, "adam"),
                   of_optimizer("beta2", adam, "adam"),
                   of_optimizer("epsilon", adam, "adam"),
                   of_optimizer("muon-momentum", o.optimizer == "muon", "muon"),
                   {"decay", o.weight_decay > 0, "without --weight-decay", {"weight-decay"}},
                   {"decay-mode", o.weight_decay > 0, "without --weight-decay", {"weight-decay"}},
                   {"look-ahead-decay", o.look_ahead > 0, "without --look-ahead", {"look-ahead"}},
                   {"crop-mode", o.crop_pad > 0, "without --crop-pad", {"crop-pad"}},
                   {"flip-mode", o.flip, "without --flip", {"flip"}},
                   {"eval-every", !o.no_eval, "with --no-eval", {"no-eval"}},
                   {"eval-images", !o.no_eval, "with --no-eval", {"no-eval"}},
                   {"tta", !o.no_eval, "with --no-eval", {"no-eval"}},
                   {"overwrite", o.resume != "auto", "with --resume auto, which goes on with the run that is there", {"resume"}},
                   {"stem", o.model.starts_with("resnet"), "without --model resnet18 or resnet50", {"model"}}});
}

void check_effects_on_model(const ParsedOptions& parsed, const Graph& graph) {
    const auto has = [&](ParamGroup group) {
        return std::any_of(graph.params.begin(), graph.params.end(), [&](const Param& p) { return p.group == group; });
    };
    const bool norms = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return std::holds_alternative<BatchNorm>(op); });
    const auto of_model = [&](const char* option, bool holds, const char* what) {
        return Need{option, holds, "with --model " + parsed.options.model + ", which has no " + what, {"model"}};
    };
    check(parsed, {of_model("norm-shift-lr", has(ParamGroup::norm_shift), "batch norm"),
                   of_model("filter-lr", has(ParamGroup::filter), "convolutions"),
                   of_model("linear-lr", has(ParamGroup::linear), "linear layers"),
                   of_model("whitening-bias-epochs", has(ParamGroup::whitening_bias), "whitening filters"),
                   of_model("sync-bn", norms, "batch norm")});
}

void check_effects_on_device(const ParsedOptions& parsed, const Backend& backend) {
    const bool gpu = !backend.synchronous();
    const auto of_gpus = [&](const char* option) {
        return Need{option, gpu, "on CPUs, and this runs on " + backend.device() + " (--device)", {"device"}};
    };
    check(parsed, {of_gpus("devices"), of_gpus("share-device"), of_gpus("no-graph"), of_gpus("bf16-gradients")});
}

}  // namespace convoy
