#include "cli/choices.h"

#include "backend/cpu/conv_algorithms.h"

namespace convoy {

void refuse_choice(const std::string& option, const std::string& text, const std::vector<std::string>& names) {
    fail(Exit::usage, "--" + option + " " + text + " is unknown" + unknown_choice(text, names, list_of(names)));
}

const Choices<OptimizerChoice>& optimizer_choices() {
    static const Choices<OptimizerChoice> choices = {
        {"sgd", OptimizerChoice::sgd},
        {"adam", OptimizerChoice::adam},
        {"muon", OptimizerChoice::muon, "convolution weights by Muon, the rest by sgd"}};
    return choices;
}

const Choices<Precision>& precision_choices() {
    static const Choices<Precision> choices = {{name_of(Precision::f32), Precision::f32},
                                               {name_of(Precision::tf32), Precision::tf32},
                                               {name_of(Precision::bf16), Precision::bf16},
                                               {name_of(Precision::f16), Precision::f16}};
    return choices;
}

const Choices<Tta>& tta_choices() {
    static const Choices<Tta> choices = {
        {"none", Tta::plain}, {"mirror", Tta::mirror}, {"full", Tta::full, "mirrored and shifted by a pixel: 6"}};
    return choices;
}

const Choices<Placement>& placement_choices() {
    static const Choices<Placement> choices = {
        {"auto", Placement::automatic, "the first of the others that leaves enough memory free"},
        {"replicate", Placement::replicate, "all on every GPU; on CPUs all on every node"},
        {"node", Placement::node, "all on every node, where its GPUs read their batches"},
        {"partition", Placement::partition, "each node holds its part"},
        {"stream", Placement::stream, "on disk, read in blocks while steps run"}};
    return choices;
}

const Choices<NormBy>& norm_choices() {
    static const Choices<NormBy> choices = {{"measured", NormBy::measured, "the fastest of the others"},
                                            {"convolutions", NormBy::convolutions, "fused into them where possible"},
                                            {"plans", NormBy::plans, "cuDNN's"},
                                            {"kernels", NormBy::kernels, "Convoy's"}};
    return choices;
}

const Choices<ConvBy>& conv_choices() {
    using cpu::name_of;
    static const Choices<ConvBy> choices = {{name_of(ConvBy::measured), ConvBy::measured, "the fastest of the others"},
                                            {name_of(ConvBy::direct), ConvBy::direct},
                                            {name_of(ConvBy::direct_bf16), ConvBy::direct_bf16},
                                            {name_of(ConvBy::winograd), ConvBy::winograd},
                                            {name_of(ConvBy::winograd_large), ConvBy::winograd_large, "in bf16"},
                                            {name_of(ConvBy::gemm), ConvBy::gemm, "of matrices"},
                                            {name_of(ConvBy::gemm_bf16), ConvBy::gemm_bf16}};
    return choices;
}

const Choices<std::optional<Schedule::Kind>>& schedule_choices() {
    static const Choices<std::optional<Schedule::Kind>> choices = {
        {"auto", std::nullopt, "cosine with --lr auto, else constant"},
        {"constant", Schedule::constant},
        {"step", Schedule::step},
        {"multistep", Schedule::multistep},
        {"cosine", Schedule::cosine},
        {"linear", Schedule::linear}};
    return choices;
}

const Choices<std::string>& device_choices() {
    static const Choices<std::string> choices = {{"auto", "auto"}, {"cuda", "cuda"}, {"cpu", "cpu"}};
    return choices;
}

}  // namespace convoy
