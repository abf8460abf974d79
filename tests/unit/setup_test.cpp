// The effect of each option of a training, compared with values written here. An option sets the
// fields that its case names to the case's values. It changes no other field of setup, backend,
// model, watchdog and time limit.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "backend/cuda_queries.h"
#include "tests/support/cluster.h"
#include "tests/support/resolved_fields.h"

namespace convoy::test {
namespace {

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

/// Returns a data set whose third channel is constant: its deviation of 0 becomes 1.
SplitInfo data_of_test() {
    SplitInfo data;
    data.split = "train";
    data.images = 500;
    data.height = 30;
    data.width = 34;
    data.channels = 3;
    data.classes = 12;
    data.mean = {0.125f, 0.25f, 0.375f};
    data.stddev = {0.5f, 0.625f, 0};
    return data;
}

constexpr int ranks = 3;
template <class Enum> std::string number(Enum v) { return std::to_string(int(v)); }

/// Returns all fields that `line` resolves to on three ranks, as `convoy train` resolves it.
Fields resolved(const std::string& line) {
    std::vector<std::string> args = {"--data", "x"};
    for (const std::string& word : words_of(line)) args.push_back(word);
    if (line.find("--batch-size") == std::string::npos) args.insert(args.end(), {"--batch-per-rank", "7"});
    // without a rate batch and length of the run decide it: the test of --lr auto
    if (line.find("--lr ") == std::string::npos) args.insert(args.end(), {"--lr", "0.1"});
    const TrainOptions o = parse_train_options(args).options;
    Fields all = fields_of(setup_of(o, data_of_test(), ranks, Clock::time_point(std::chrono::seconds(77))));
    all.merge(fields_of(backend_options_of(o)));
    all.merge(fields_of(model_of(o, data_of_test())));
    all["watchdog"] = text_of(o.watchdog);
    all["publish_every"] = text_of(o.publish_every);
    all["time_limit"] = text_of(o.time_limit);
    all["log_format"] = number(o.log_format);
    all["log_dir"] = o.log_dir;
    return all;
}

struct Case {
    std::string line;
    Fields changed;
};

/// Returns cases of the optimizer. An option that needs another one is given together with it.
std::vector<Case> optimizer_cases() {
    const std::pair<std::string, std::string> adam{"optimizer.kind", number(OptimizerSpec::adam)},
        decay{"weight_decay", "0.0625"};
    return {{"--optimizer adam", {adam}},
            {"--optimizer adam --beta1 0.75", {adam, {"optimizer.beta1", "0.75"}}},
            {"--optimizer adam --beta2 0.875", {adam, {"optimizer.beta2", "0.875"}}},
            {"--optimizer adam --epsilon 0.25", {adam, {"optimizer.epsilon", "0.25"}}},
            {"--optimizer muon", {{"muon", "true"}}},
            {"--optimizer muon --muon-momentum 0.5", {{"muon", "true"}, {"optimizer.muon_momentum", "0.5"}}},
            {"--momentum 0.75", {{"optimizer.momentum", "0.75"}}},
            {"--nesterov", {{"optimizer.nesterov", "true"}}},
            {"--weight-decay 0.0625", {decay}},
            {"--weight-decay 0.0625 --decay weights", {decay, {"decay_weights_only", "true"}}},
            {"--weight-decay 0.0625 --decay-mode decoupled", {decay, {"decoupled_decay", "true"}}},
            {"--norm-shift-lr 64", {{"norm_shift_rate", "64"}}},
            {"--filter-lr 3", {{"filter_rate", "3"}}},
            {"--linear-lr 5", {{"linear_rate", "5"}}},
            {"--model airbench94 --whitening-bias-epochs 2.5",
             {{"model.name", "airbench94"}, {"whitening_bias_epochs", "2.5"}}},
            {"--look-ahead 5", {{"look_ahead", "5"}}},
            {"--look-ahead 5 --look-ahead-decay 0.5", {{"look_ahead", "5"}, {"look_ahead_decay", "0.5"}}},
            {"--label-smoothing 0.25", {{"model.label_smoothing", "0.25"}}},
            {"--loss sum", {{"model.sum_loss", "true"}}},
            // 1024 * (1 + 1 / (1 - 0.5)) is 3072; a batch of 96 is a 32nd of that.
            {"--lr-unit kilostep --momentum 0.5 --lr 6 --weight-decay 8 --batch-size 96",
             {{"schedule.base", "0.001953125"},
              {"weight_decay", "0.25"},
              {"optimizer.momentum", "0.5"},
              {"global_batch", "96"}}}};
}

std::vector<Case> schedule_cases() {
    const auto kind = [](Schedule::Kind k) {
        return std::pair<const std::string, std::string>{"schedule.kind", number(k)};
    };
    return {
        {"--lr 0.3", {{"schedule.base", "0.3"}}},
        {"--lr 0.5@42", {{"schedule.base", "0.25"}}},
        {"--lr auto --model mnist-linear",
         {{"schedule.base", "0.008203125"},  // 21 of 256
          {"schedule.warmup_epochs", "0.3"},
          kind(Schedule::cosine),
          {"model.name", "mnist-linear"}}},
        {"--warmup-epochs 2.5", {{"schedule.warmup_epochs", "2.5"}}},
        {"--lr-schedule cosine", {kind(Schedule::cosine)}},
        {"--lr-schedule step --lr-gamma 0.5", {kind(Schedule::step), {"schedule.gamma", "0.5"}}},
        {"--lr-schedule step --lr-step-epochs 7.5", {kind(Schedule::step), {"schedule.step_epochs", "7.5"}}},
        {"--lr-schedule multistep --lr-milestones 3,5.5",
         {kind(Schedule::multistep), {"schedule.milestones", "3,5.5"}}},
        {"--lr-schedule linear --lr-points 0:0.5,2:1.5", {kind(Schedule::linear), {"schedule.points", "0:0.5,2:1.5"}}},
        {"--lr-schedule linear --lr-points 25%:0.5,50%:0",
         {kind(Schedule::linear), {"schedule.points", "0.25:0.5,0.5:0"}, {"schedule.points_of_run", "true"}}}};
}

std::vector<Case> run_cases() {
    const std::pair<const std::string, std::string> no_time{"checkpoint_seconds", "0"};
    return {{"--batch-size 100", {{"global_batch", "100"}}},
            {"--epochs 9.5", {{"epochs", "9.5"}}},
            {"--max-steps 17", {{"max_steps", "17"}}},
            {"--drop-last", {{"drop_last", "true"}}},
            {"--eval-every 4", {{"eval_every", "4"}}},
            {"--log-interval 3", {{"log_interval", "3"}}},
            {"--metrics-every 7", {{"metrics_every", "7"}}},
            {"--log-format mnist-linear", {{"log_format", number(LogFormat::mnist_linear)}}},
            {"--log-dir logs", {{"log_dir", "logs"}}},
            {"--virtual-ranks 5", {{"logical_ranks", "5"}, {"global_batch", "35"}, {"backend.invariant", "true"}}},
            {"--accumulate 4", {{"logical_ranks", "12"}, {"global_batch", "84"}, {"backend.invariant", "true"}}},
            {"--sync-bn", {{"sync_bn", "true"}, {"backend.sync_bn", "true"}}},
            {"--bucket-mib 0.5", {{"bucket_bytes", "524288"}}},
            {"--seed 11", {{"seed", "11"}}},
            {"--on-nan skip", {{"on_nan", number(OnNan::skip)}}},
            {"--on-nan rollback", {{"on_nan", number(OnNan::rollback)}}},
            {"--checkpoint-every 500", {{"checkpoint_steps", "500"}, no_time}},
            {"--checkpoint-every 2e", {{"checkpoint_epochs", "2"}, no_time}},
            {"--checkpoint-every none", {no_time, {"checkpoint_at_end", "false"}}},
            {"--checkpoint-every 2h", {{"checkpoint_seconds", "7200"}}},
            {"--checkpoint-every 3m", {{"checkpoint_seconds", "180"}}},
            {"--checkpoint-every 45s", {{"checkpoint_seconds", "45"}}},
            {"--checkpoint-every 1h30m15s", {{"checkpoint_seconds", "5415"}}},
            {"--time-limit 2h", {{"time_limit", "7200"}}},
            {"--time-limit 1h50m", {{"time_limit", "6600"}}},
            {"--time-limit 90s", {{"time_limit", "90"}}},
            {"--publish-every 1m30s", {{"publish_every", "90"}}},
            {"--watchdog none", {{"watchdog", "0"}}},
            {"--watchdog 1h", {{"watchdog", "3600"}}},
            {"--watchdog 5s", {{"watchdog", "5"}}},
            {"--model airbench94", {{"model.name", "airbench94"}}},
            {"--stem cifar", {{"model.stem", "cifar"}}}};
}

std::vector<Case> backend_and_input_cases() {
    return {
        {"--threads 5", {{"backend.threads", "5"}}},
        {"--bind none", {{"backend.bind", "false"}}},
        {"--precision bf16", {{"backend.precision", number(Precision::bf16)}}},
        {"--device cuda --precision tf32", {{"backend.precision", number(Precision::tf32)}}},
        {"--device cuda --precision f16", {{"backend.precision", number(Precision::f16)}}},
        {"--device cuda --devices 3,1", {{"backend.devices", "3,1"}}},
        {"--device cuda --share-device", {{"backend.share_device", "true"}}},
        {"--device cuda --no-graph", {{"backend.capture", "false"}}},
        {"--device cuda --one-stream", {{"backend.one_stream", "true"}}},
        {"--device cuda --bf16-gradients", {{"backend.bf16_gradients", "true"}}},
        {"--device cuda --norm-by measured", {}},
        {"--device cuda --norm-by convolutions", {{"backend.norm_by", number(NormBy::convolutions)}}},
        {"--device cuda --norm-by plans", {{"backend.norm_by", number(NormBy::plans)}}},
        {"--device cuda --norm-by kernels", {{"backend.norm_by", number(NormBy::kernels)}}},
        {"--conv-by measured", {}},
        {"--conv-by direct", {{"backend.conv_by", number(ConvBy::direct)}}},
        {"--conv-by direct-bf16", {{"backend.conv_by", number(ConvBy::direct_bf16)}}},
        {"--conv-by winograd", {{"backend.conv_by", number(ConvBy::winograd)}}},
        {"--conv-by winograd-large", {{"backend.conv_by", number(ConvBy::winograd_large)}}},
        {"--conv-by product", {{"backend.conv_by", number(ConvBy::product)}}},
        {"--conv-by product-bf16", {{"backend.conv_by", number(ConvBy::product_bf16)}}},
        {"--tune full", {}},
        {"--tune quick", {{"backend.tune_seconds", "0"}}},
        {"--tune 90", {{"backend.tune_seconds", "90"}}},
        {"--tune 90s", {{"backend.tune_seconds", "90"}}},
        {"--tune 1m30s", {{"backend.tune_seconds", "90"}}},
        {"--image-size 70",
         {{"model.h", "70"},
          {"model.w", "70"},
          {"short_side", "80"},
          {"augment.crop", number(Crop::centre)},
          {"augment.short_side", "80"}}},
        {"--resize 40", {{"short_side", "40"}, {"augment.crop", number(Crop::centre)}, {"augment.short_side", "40"}}},
        {"--random-resized-crop", {{"augment.crop", number(Crop::random_resized)}}},
        {"--random-resized-crop --crop-scale 0.25,0.75",
         {{"augment.crop", number(Crop::random_resized)},
          {"augment.scale_low", "0.25"},
          {"augment.scale_high", "0.75"}}},
        {"--random-resized-crop --crop-ratio 0.5,2",
         {{"augment.crop", number(Crop::random_resized)}, {"augment.ratio_low", "0.5"}, {"augment.ratio_high", "2"}}},
        {"--crop-pad 4", {{"augment.pad", "4"}}},
        {"--crop-pad 4 --crop-mode reflect", {{"augment.pad", "4"}, {"augment.reflect", "true"}}},
        {"--flip", {{"augment.flip", "true"}}},
        {"--flip --flip-mode alternate", {{"augment.flip", "true"}, {"augment.alternate", "true"}}},
        {"--color-jitter 0.5", {{"augment.brightness", "0.5"}}},
        {"--color-jitter 0,0.25,2,0.125",
         {{"augment.contrast", "0.25"}, {"augment.saturation", "2"}, {"augment.hue", "0.125"}}},
        {"--mixup 0.25", {{"augment.mixup", "0.25"}}},
        {"--cutmix 1", {{"augment.cutmix", "1"}}},
        {"--tta mirror", {{"tta", number(Tta::mirror)}}},
        {"--tta full", {{"tta", number(Tta::full)}}},
        {"--mean 0.75,0.5,0.25", {{"mean", "0.75,0.5,0.25"}}},
        {"--stddev 2,3,4", {{"stddev", "2,3,4"}}}};
}

std::vector<Case> all_cases() {
    std::vector<Case> all;
    for (const auto& some : {optimizer_cases(), schedule_cases(), run_cases(), backend_and_input_cases()})
        all.insert(all.end(), some.begin(), some.end());
    return all;
}

/// Returns the differences, one "name: is 1, not 2" per line.
std::string difference(const Fields& is, const Fields& expected) {
    std::string text;
    for (const auto& [name, value] : expected)
        if (!is.contains(name))
            text += name + ": is not there\n";
        else if (is.at(name) != value)
            text += name + ": is " + is.at(name) + ", not " + value + "\n";
    for (const auto& [name, value] : is)
        if (!expected.contains(name)) text += name + ": is " + value + ", and no test expects it\n";
    return text;
}

TEST(Setup, IsTheStandardWithoutOptions) { EXPECT_EQ("", difference(resolved(""), standard_fields())); }

TEST(Setup, HasEachOptionInItsFieldAndNowhereElse) {
    for (const Case& c : all_cases()) {
        Fields expected = standard_fields();
        for (const auto& [name, value] : c.changed) {
            EXPECT_NE(expected.at(name), value) << c.line << ": a value that is the standard's tests nothing";
            expected[name] = value;
        }
        EXPECT_EQ("", difference(resolved(c.line), expected)) << c.line;
    }
}

// Fails when an option is added that no case above sets.
TEST(Setup, HasACaseForEveryOption) {
    // These options have no effect on the setup. They decide about files, the device, the place of
    // images, the run folder, and the test images (Run.EvaluationsCanBeShortOrLeftOut).
    std::set<std::string> covered = {
        "--data",      "--output",         "--overwrite",       "--resume",         "--keep",
        "--strict-io", "--device",         "--batch-per-rank",  "--no-environment", "--eval-images",
        "--no-eval",   "--data-placement", "--stream-block-mib"};
    for (const Case& c : all_cases())
        for (const std::string& word : words_of(c.line)) covered.insert(word);
    for (const auto& [name, value] : parse_train_options({"--data", "x", "--batch-size", "1"}).resolved)
        EXPECT_TRUE(covered.contains("--" + name)) << "--" << name << " has no case here";
}

// If a flag makes a recipe's option pointless, --print-config shows that option's default.
TEST(SetupOfRecipes, WhatAFlagMakesPointlessIsThatOfTheDefault) {
    const TempDir dir;
    write_file(dir.path("recipe"), "crop-pad = 2\ncrop-mode = reflect\nmomentum = 0.5\n");
    const auto value = [&](const std::string& option, std::vector<std::string> more) {
        more.insert(more.end(), {"--data", "x", "--batch-size", "8", "--config", dir.path("recipe")});
        for (const auto& [name, text] : parse_train_options(more).resolved)
            if (name == option) return text;
        return std::string("missing");
    };
    EXPECT_EQ(value("crop-mode", {}), "reflect");
    EXPECT_EQ(value("crop-mode", {"--crop-pad", "0"}), "zero");
    EXPECT_EQ(value("momentum", {"--optimizer", "adam"}), value("momentum", {"--optimizer", "adam", "--beta1", "0.5"}));
    EXPECT_EQ(value("momentum", {}), "0.5");
    EXPECT_NE(value("momentum", {"--optimizer", "adam"}), "0.5");
    write_file(dir.path("recipe"), "crop-mode = reflect\n");
    EXPECT_EQ("", problem_of_error(Exit::usage, {dir.path("recipe"), "crop-mode: has no effect without --crop-pad"},
                                   [&] { value("crop-mode", {}); }))
        << "no flag says so";
}

TEST(SetupOfRecipes, CannotNameRecipesOrAskForHelp) {
    const TempDir dir;
    for (const std::string key : {"config", "help", "no-such-option"}) {
        write_file(dir.path("recipe"), "seed = 3\n" + key + " = x\n");
        EXPECT_EQ("",
                  problem_of_error(Exit::usage, {dir.path("recipe") + ":2: ", "there is no key '" + key + "'"}, [&] {
                      parse_train_options({"--data", "x", "--batch-size", "8", "--config", dir.path("recipe")});
                  }));
    }
}

// Scripts that name every option continue to work.
TEST(SetupOfRecipes, APointlessOptionMayHaveItsDefault) {
    const auto parse = [](const char* mode) {
        parse_train_options({"--data", "x", "--batch-size", "8", "--crop-mode", mode});
    };
    EXPECT_NO_THROW(parse("zero"));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--crop-mode: has no effect without --crop-pad"},
                                   [&] { parse("reflect"); }));
}

// A resnet for 64 pixels only would have the stem for CIFAR, and other weights.
TEST(SetupOfImageSizes, AllHaveTheStemOfTheLast) {
    SplitInfo data = data_of_test();
    for (const auto& [sizes, stem] :
         {std::pair{"64:0,96:1", "imagenet"}, {"32:0,48:1,64:2", "cifar"}, {"96:0,64:1", "cifar"}}) {
        const TrainOptions o =
            parse_train_options({"--data", "x", "--batch-size", "8", "--model", "resnet18", "--image-size", sizes})
                .options;
        const Graph last = build_model(model_of(o, data));
        const auto earlier =
            earlier_graphs(o, data, last, [](const ModelOptions& model) { return build_model(model); });
        EXPECT_EQ(earlier.size(), o.image_size.earlier.size());
        const int kernel = std::string(stem) == "cifar" ? 3 : 7;
        for (const EarlierGraph& e : earlier) EXPECT_EQ(e.graph.params[0].shape.h, kernel) << sizes;
        EXPECT_EQ(last.params[0].shape.h, kernel) << sizes;
    }
}

}  // namespace
}  // namespace convoy::test
