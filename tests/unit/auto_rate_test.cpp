// The rates, schedules and warm-ups of --lr auto, compared with numbers by the rules in
// input/TRAINING.md.
#include "cli/auto_rate.h"

#include <gtest/gtest.h>

#include "cli/train_setup.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

ParsedOptions parsed(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--data", "x"};
    args.insert(args.end(), more.begin(), more.end());
    return parse_train_options(args);
}
std::string value_of(const ParsedOptions& p, const std::string& option) {
    return config_value(config_text(p.resolved), option);
}

constexpr int64_t many = 1 << 20;  // images

TEST(AutoRate, FollowsOptimizerModelAndBatch) {
    const auto rate = [](const std::vector<std::string>& more, int64_t batch, int64_t images = many) {
        std::vector<std::string> args = {"--epochs", "1000"};
        args.insert(args.end(), more.begin(), more.end());
        return schedule_of(parsed(args).options, batch, images).base;
    };
    // Goyal et al., 2017: 0.1 for 256, in proportion, up to 8,192
    EXPECT_DOUBLE_EQ(rate({}, 256), 0.1);
    EXPECT_DOUBLE_EQ(rate({"--model", "pyramidnet"}, 64), 0.025);
    EXPECT_DOUBLE_EQ(rate({"--nesterov"}, 8), 0.003125);
    EXPECT_DOUBLE_EQ(rate({}, 8192), 3.2);
    EXPECT_DOUBLE_EQ(rate({}, 65536), 3.2);
    // a batch counts up to a sixteenth of the images
    EXPECT_DOUBLE_EQ(rate({}, 256, 640), 0.1 * 40 / 256);
    EXPECT_DOUBLE_EQ(rate({}, 256, 5), 0.1 / 256);
    EXPECT_DOUBLE_EQ(rate({"--model", "airbench94"}, 512), 0.5);
    // a step grows with 1 / (1 - momentum)
    EXPECT_DOUBLE_EQ(rate({"--momentum", "0"}, 256), 1);
    EXPECT_NEAR(rate({"--momentum", "0.95"}, 256), 0.05, 1e-12);
    EXPECT_NEAR(rate({"--momentum", "1"}, 256), 0.01, 1e-12);
    EXPECT_DOUBLE_EQ(rate({"--optimizer", "adam"}, 32), 0.001);
    EXPECT_DOUBLE_EQ(rate({"--optimizer", "adam"}, 128), 0.002);
    EXPECT_DOUBLE_EQ(rate({"--optimizer", "muon", "--momentum", "0.5"}, 8), 0.01);
}

// Batch norm's running averages stay behind in short runs.
TEST(AutoRate, IsLessForDeepModelsInShortRuns) {
    const auto rate = [](const std::string& model, const std::string& epochs) {
        return schedule_of(parsed({"--model", model, "--epochs", epochs}).options, 32, 3200).base;
    };
    EXPECT_DOUBLE_EQ(rate("resnet18", "10"), 0.0125);
    EXPECT_DOUBLE_EQ(rate("resnet18", "2.5"), 0.0125 / 2);
    EXPECT_DOUBLE_EQ(rate("pyramidnet110", "2.5"), 0.0125 / 2);
    EXPECT_DOUBLE_EQ(rate("resnet50", "20"), 0.0125);
    EXPECT_DOUBLE_EQ(rate("resnet50", "5"), 0.0125 / 2);
    EXPECT_DOUBLE_EQ(rate("airbench94", "1"), 0.03125);
    EXPECT_DOUBLE_EQ(rate("mnist-conv", "1"), 0.0125);
    const auto options = parsed({"--epochs", "10", "--max-steps", "90"}).options;
    EXPECT_DOUBLE_EQ(schedule_of(options, 32, 3200).base, 0.0125 * 0.3);
    EXPECT_EQ(auto_rate(options, 32, 3200).why,
              " (--lr auto: 0.1 at a batch of 256, in proportion, times 0.3 for only 90 steps)");
}

TEST(AutoRate, WarmsUpForFiveEpochsOrAThirdOfTheRunNearlyAndEndsAtZero) {
    const auto schedule = [](const std::vector<std::string>& more, int64_t images) {
        return schedule_of(parsed(more).options, 32, images);
    };
    EXPECT_EQ(schedule({}, 3200).kind, Schedule::cosine);
    EXPECT_DOUBLE_EQ(schedule({}, 3200).warmup_epochs, 0.3);  // --epochs is 1
    EXPECT_DOUBLE_EQ(schedule({"--epochs", "10"}, 3200).warmup_epochs, 3);
    EXPECT_DOUBLE_EQ(schedule({"--epochs", "90"}, 3200).warmup_epochs, 5);
    EXPECT_DOUBLE_EQ(schedule({"--epochs", "90", "--max-steps", "200"}, 3200).warmup_epochs, 0.6);
    EXPECT_DOUBLE_EQ(schedule({"--max-steps", "1000"}, 3200).warmup_epochs, 0.3);
    EXPECT_DOUBLE_EQ(schedule({"--epochs", "4", "--max-steps", "2", "--drop-last"}, 63).warmup_epochs, 0.6);
    EXPECT_LT(learning_rate(schedule({}, 3200), 99, 100, 100), 1e-5);
    // what is given stays
    EXPECT_DOUBLE_EQ(schedule({"--warmup-epochs", "0"}, 3200).warmup_epochs, 0);
    EXPECT_EQ(schedule({"--lr-schedule", "constant"}, 3200).kind, Schedule::constant);
    EXPECT_DOUBLE_EQ(schedule({"--lr-schedule", "linear", "--lr-points", "0:0,1:1"}, 3200).warmup_epochs, 0);
}

TEST(AutoRate, ARateThatIsGivenIsConstantAndWithoutWarmUp) {
    const Schedule s = schedule_of(parsed({"--lr", "0.1"}).options, 32, 320);
    EXPECT_EQ(s.base, 0.1);
    EXPECT_EQ(s.kind, Schedule::constant);
    EXPECT_EQ(s.warmup_epochs, 0);
    for (const int64_t batch : {64, 192, 1000}) {  // what the recipes of ResNets meant by auto
        const Schedule same = schedule_of(parsed({"--config", "input/recipes/resnet50.cfg"}).options, batch, many);
        EXPECT_EQ(same.base, double(batch) / 1000);
        EXPECT_EQ(same.warmup_epochs, 1);
    }
    for (const char* text : {"0.1@", "@256", "0.1@0", "auto@256", "0.1@2.5", "0.1@-8", "0.1 @8"})
        EXPECT_THROW(parsed({"--lr", text}), Error) << text;
}

TEST(AutoRate, IsRefusedWhereItHasNoMeaning) {
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--lr auto", "--loss sum"}, [] { parsed({"--loss", "sum"}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--lr auto", "--lr-unit"}, [] { parsed({"--lr-unit", "kilostep"}); }));
    EXPECT_NO_THROW(parsed({"--loss", "sum", "--lr", "0.001"}));
}

TEST(AutoRate, ABatchIsGivenWhereNoneIs) {
    const ParsedOptions p = parsed();
    EXPECT_EQ(p.options.batch_size, 32);
    EXPECT_EQ(value_of(p, "batch-size"), "32");
    EXPECT_EQ(parsed({"--batch-per-rank", "4"}).options.batch_size, 0);
}

TEST(AutoRate, IsRecordedAsNumbers) {
    ParsedOptions p = parsed({"--epochs", "2"});
    record_rates(schedule_of(p.options, 21, many), p.resolved);
    EXPECT_EQ(std::stod(value_of(p, "lr")), 0.1 * 21 / 256);
    EXPECT_EQ(value_of(p, "lr-schedule"), "cosine");
    EXPECT_EQ(value_of(p, "warmup-epochs"), "0.6");
    ParsedOptions given = parsed({"--lr", "0.1@256"});
    record_rates(schedule_of(given.options, 32, many), given.resolved);
    EXPECT_EQ(value_of(given, "lr"), "0.1@256");
    EXPECT_EQ(value_of(given, "lr-schedule"), "constant");
    EXPECT_EQ(value_of(given, "warmup-epochs"), "0");
}

struct Resumed {
    std::string recorded;
    std::vector<std::string> args;
    double base;
    Schedule::Kind kind;
    double warmup;
};

// A resumed run keeps the numbers that it recorded, with any length and version.
TEST(AutoRate, IsThatOfTheRunThatGoesOn) {
    const Resumed cases[] = {
        {"lr = 0.3\nlr-schedule = cosine\nwarmup-epochs = 0.5\n", {"--epochs", "40"}, 0.3, Schedule::cosine, 0.5},
        {"lr = 0.1\nlr-schedule = constant\nwarmup-epochs = 0\n", {}, 0.1, Schedule::constant, 0},  // an older default
        {"lr = auto\nlr-schedule = constant\nwarmup-epochs = 0\n", {}, 0.032, Schedule::constant, 0},  // an older auto
        {"lr = 0.3\nlr-schedule = cosine\nwarmup-epochs = 2\n", {"--warmup-epochs", "1"}, 0.3, Schedule::cosine, 1},
        {"lr = 0.3\nlr-schedule = cosine\nwarmup-epochs = 2\n", {"--lr", "0.5"}, 0.5, Schedule::constant, 0},
        {"lr = 0.3\nlr-schedule = step\nwarmup-epochs = 2\n",
         {},
         0.0125,
         Schedule::cosine,
         0.3},  // step had to be given
        {"lr = 11.5\nlr-unit = kilostep\nlr-schedule = constant\n", {}, 0.0125, Schedule::cosine, 0.3},
        {"", {}, 0.0125, Schedule::cosine, 0.3}};
    for (const Resumed& c : cases) {
        ParsedOptions p = parsed(c.args);
        take_recorded_rates(c.recorded, p);
        const Schedule s = schedule_of(p.options, 32, many);
        EXPECT_EQ(s.base, c.base) << c.recorded;
        EXPECT_EQ(s.kind, c.kind) << c.recorded;
        EXPECT_EQ(s.warmup_epochs, c.warmup) << c.recorded;
    }
}

}  // namespace
}  // namespace convoy::test
