// Checks the fields that options of a training resolve to, where data, ranks or other options count
// too. setup_step_test.cpp checks the options of the optimizer.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "backend/cuda_queries.h"
#include "cli/train_setup.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

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

/// Options on three ranks, resolved as `convoy train` does.
struct Resolved {
    explicit Resolved(const std::string& line) {
        std::vector<std::string> args = {"--data", "x"};
        std::istringstream in(line);
        for (std::string word; in >> word;) args.push_back(word);
        if (line.find("--batch-size") == std::string::npos) args.insert(args.end(), {"--batch-per-rank", "7"});
        // without a rate batch and length of the run decide it: the test of --lr auto
        if (line.find("--lr ") == std::string::npos) args.insert(args.end(), {"--lr", "0.1"});
        options = parse_train_options(args).options;
        setup = setup_of(options, data_of_test(), 3, Clock::time_point(std::chrono::seconds(77)));
        model = model_of(options, data_of_test());
    }
    TrainOptions options;
    TrainSetup setup;
    ModelOptions model;
    const BackendOptions& backend = options.backend;
    const Schedule& schedule = setup.schedule;
    const Augment& augment = setup.augment;
    const Preprocessing& preprocessing = setup.preprocessing;
};

struct Case {
    const char* line;
    std::function<bool(const Resolved&)> holds;
};
void expect_all(const std::vector<Case>& cases) {
    for (const auto& [line, holds] : cases) EXPECT_TRUE(holds(Resolved(line))) << line;
}
using R = const Resolved&;

TEST(Setup, RatesFollowBatchAndUnit) {
    expect_all({
        {"--lr 0.3", [](R r) { return r.schedule.base == 0.3 && r.schedule.kind == Schedule::constant; }},
        {"--lr 0.5@42", [](R r) { return r.schedule.base == 0.25; }},
        {"--lr auto --model mnist-linear",
         [](R r) {
             return r.schedule.base == 0.1 * 21 / 256 && r.schedule.warmup_epochs == 0.3 &&
                    r.schedule.kind == Schedule::cosine;
         }},
        // 1024 * (1 + 1 / (1 - 0.5)) is 3072; a batch of 96 is a 32nd of that.
        {"--lr-unit kilostep --momentum 0.5 --lr 6 --weight-decay 8 --batch-size 96",
         [](R r) { return r.schedule.base == 0.001953125 && r.setup.weight_decay == 0.25; }},
        {"--lr-schedule linear --lr-points 25%:0.5,50%:0",
         [](R r) {
             return r.schedule.points == decltype(r.schedule.points){{0.25, 0.5}, {0.5, 0}} && r.schedule.points_of_run;
         }},
        {"--optimizer adam", [](R r) { return r.setup.optimizer.kind == OptimizerSpec::adam && !r.setup.muon; }},
        {"--optimizer muon", [](R r) { return r.setup.optimizer.kind == OptimizerSpec::sgd && r.setup.muon; }},
    });
}

TEST(Setup, BatchesAndRanksFollowEachOther) {
    expect_all({
        {"", [](R r) { return r.setup.global_batch == 21 && r.setup.logical_ranks == 0 && !r.backend.invariant; }},
        {"--batch-size 100", [](R r) { return r.setup.global_batch == 100; }},
        {"--virtual-ranks 5",
         [](R r) { return r.setup.logical_ranks == 5 && r.setup.global_batch == 35 && r.backend.invariant; }},
        {"--accumulate 4",
         [](R r) { return r.setup.logical_ranks == 12 && r.setup.global_batch == 84 && r.backend.invariant; }},
        {"--sync-bn", [](R r) { return r.setup.sync_bn && r.backend.sync_bn; }},
        {"--bucket-mib 0.5", [](R r) { return r.setup.bucket_bytes == 524288; }},
        {"--stream-block-mib 0.25", [](R r) { return r.options.placement.stream_block == 262144; }},
    });
}

TEST(Setup, TimesAreInSeconds) {
    expect_all({
        {"", [](R r) { return r.setup.checkpoint_seconds == 600 && r.setup.checkpoint_at_end; }},
        {"--checkpoint-every none", [](R r) { return !r.setup.checkpoint_at_end; }},
        {"--time-limit 1h50m", [](R r) { return r.options.time_limit == 6600; }},
        {"--publish-every 1m30s", [](R r) { return r.options.run.publish_every == 90; }},
        {"--watchdog 1h", [](R r) { return r.options.watchdog == 3600; }},
        {"--watchdog none", [](R r) { return r.options.watchdog == 0; }},
        {"--tuning full", [](R r) { return r.backend.tune_seconds == INFINITY; }},
        {"--tuning quick", [](R r) { return r.backend.tune_seconds == 0; }},
        {"--tuning 90", [](R r) { return r.backend.tune_seconds == 90; }},
        {"--tuning 1m30s", [](R r) { return r.backend.tune_seconds == 90; }},
    });
}

TEST(Setup, FlagsSetTheBackend) {
    expect_all({
        {"", [](R r) { return r.backend.capture && r.backend.bind && !r.backend.share_device; }},
        {"--device cuda --no-graph", [](R r) { return !r.backend.capture; }},
        {"--device cuda --no-graph=false", [](R r) { return r.backend.capture; }},
        {"--bind none", [](R r) { return !r.backend.bind; }},
        {"--device cuda --devices 3,1", [](R r) { return r.backend.devices == std::vector{3, 1}; }},
        {"--device cuda --norm-by plans", [](R r) { return r.backend.norm_by == NormBy::plans; }},
        {"--conv-by winograd-large", [](R r) { return r.backend.conv_by == ConvBy::winograd_large; }},
    });
}

TEST(Setup, ImagesAreSeenAsOptionsAndDataSay) {
    expect_all({
        {"",
         [](R r) {
             return r.model.h == 30 && r.model.w == 34 && r.augment.crop == Crop::shifted &&
                    r.preprocessing.stddev == std::vector{0.5f, 0.625f, 1.0f};
         }},
        {"--image-size 70",
         [](R r) {
             return r.model.h == 70 && r.model.w == 70 && r.preprocessing.short_side == 80 &&
                    r.augment.crop == Crop::centre && r.augment.short_side == 80;
         }},
        {"--resize 40",
         [](R r) {
             return r.preprocessing.short_side == 40 && r.augment.crop == Crop::centre && r.augment.short_side == 40;
         }},
        {"--random-resized-crop --crop-scale 0.25,0.75 --crop-ratio 0.5,2",
         [](R r) {
             const Augment& a = r.augment;
             return a.crop == Crop::random_resized && a.scale_low == 0.25f && a.scale_high == 0.75f &&
                    a.ratio_low == 0.5f && a.ratio_high == 2;
         }},
        {"--crop-pad 4 --crop-mode reflect", [](R r) { return r.augment.pad == 4 && r.augment.reflect; }},
        {"--flip --flip-mode alternate", [](R r) { return r.augment.flip && r.augment.alternate; }},
        {"--color-jitter 0.5,0.25,2,0.125",
         [](R r) {
             const Augment& a = r.augment;
             return a.brightness == 0.5f && a.contrast == 0.25f && a.saturation == 2 && a.hue == 0.125f;
         }},
        {"--mean 0.75,0.5,0.25", [](R r) { return r.preprocessing.mean == std::vector{0.75f, 0.5f, 0.25f}; }},
        {"--stddev 2,3,4", [](R r) { return r.preprocessing.stddev == std::vector{2.0f, 3.0f, 4.0f}; }},
    });
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

TEST(SetupOfRecipes, MayHaveTheNameThatAnOptionHadBefore) {
    const TempDir dir;
    write_file(dir.path("recipe"), "tune = quick\n");
    const auto parsed = parse_train_options({"--data", "x", "--batch-size", "8", "--config", dir.path("recipe")});
    EXPECT_EQ(parsed.options.backend.tune_seconds, 0);
    EXPECT_EQ(config_value("tune = quick\n", "tuning"), "quick") << "of an earlier run's record";
    write_file(dir.path("recipe"), "tune = quick\ntuning = full\n");
    EXPECT_EQ("", problem_of_error(Exit::usage, {dir.path("recipe") + ":2: tuning: is given more than once"}, [&] {
                  parse_train_options({"--data", "x", "--batch-size", "8", "--config", dir.path("recipe")});
              }));
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

// Each size has programs, and each name is compared with all parameters. Both may come from a
// recipe of another person.
TEST(SetupOfLists, EndlessOnesAreRefused) {
    const auto parse = [](const std::string& option, const std::string& value) {
        parse_train_options({"--data", "x", "--batch-size", "8", "--model", "resnet18", "--" + option, value});
    };
    std::string sizes = "32:0", names = "a";
    for (int i = 1; i < 100; ++i) sizes += ",32:" + std::to_string(i);
    for (int i = 1; i < 1000; ++i) names += ",a";
    EXPECT_NO_THROW(parse("image-size", sizes));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--image-size", "at most 100 sizes"},
                                   [&] { parse("image-size", sizes + ",32:100"); }));
    EXPECT_NO_THROW(parse("freeze", names));
    EXPECT_EQ(
        "", problem_of_error(Exit::usage, {"--freeze", "at most 1000 names"}, [&] { parse("freeze", names + ",a"); }));
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
