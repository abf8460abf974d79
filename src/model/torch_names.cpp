#include "model/torch_names.h"

#include <regex>
#include <utility>
#include <vector>

namespace convoy {
namespace {

using Replacements = std::vector<std::pair<const char*, const char*>>;

const Replacements& replacements_of(const std::string& model) {
    static const Replacements stages = {{"^stem\\.", ""},
                                        {"^(conv|bn)\\.", "$011."},
                                        {"^stage(\\d)\\.block(\\d+)\\.", "layer$1.$2."},
                                        {"\\.down\\.conv\\.", ".downsample.0."},
                                        {"\\.down\\.bn\\.", ".downsample.1."},
                                        {"^head\\.bn\\.", "bn_final."}};
    // The positions in a Sequential: whitening, GELU, three groups, pooling, flattening, linear.
    static const Replacements airbench = {{"^whitening\\.", "0."}, {"^group1\\.", "2."}, {"^group2\\.", "3."},
                                          {"^group3\\.", "4."},    {"^fc\\.", "7."},     {"\\.bn(\\d)\\.", ".norm$1."}};
    static const Replacements airbench_muon = {{"^whitening\\.", "whiten."},
                                               {"^group(\\d)\\.", "layers.$1."},
                                               {"^fc\\.", "head."},
                                               {"\\.bn(\\d)\\.", ".norm$1."}};
    static const Replacements same = {};
    if (model.starts_with("resnet") || model.starts_with("pyramidnet")) return stages;
    if (model == "airbench94") return airbench;
    return model == "airbench94-muon" ? airbench_muon : same;
}

}  // namespace

std::string torch_name(const std::string& model, const std::string& name) {
    std::string torch = name;
    for (const auto& [pattern, replacement] : replacements_of(model))
        torch = std::regex_replace(torch, std::regex(pattern), replacement);
    for (const auto& [ending, theirs] :
         {std::pair(".scale", ".weight"), {".mean", ".running_mean"}, {".var", ".running_var"}})
        if (torch.ends_with(ending)) return torch.substr(0, torch.rfind('.')) + theirs;
    return torch;
}

}  // namespace convoy
