// The options of `convoy train` for users: printed values can be read back, flags override a file,
// values out of range are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "cli/train_options.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

namespace fs = std::filesystem;

TEST(Options, PrintedConfigReadsBack) {
    const TempDir dir;
    const std::string given =
        "train --data some/where --model mnist-conv --batch-size 48 --lr 0.123456789 --weight-decay 5e-4 --nesterov "
        "--lr-schedule linear --lr-points 0:0.2,2:1,8:0 --mean 0.1307 --stddev 0.3081 --label-smoothing 1e-7 --flip "
        "--seed 123456789 --output some/run --log-dir some/logs --overwrite";
    const Finished first = convoy_alone(given + " --print-config");
    ASSERT_EQ("", failure(first));
    EXPECT_EQ(value_in(first.out, "lr"), "0.123456789");
    EXPECT_EQ(value_in(first.out, "weight-decay"), "0.0005");
    EXPECT_EQ(value_in(first.out, "nesterov"), "true");
    EXPECT_EQ(value_in(first.out, "lr-points"), "0:0.2,2:1,8:0");
    EXPECT_EQ(value_in(first.out, "seed"), "123456789");
    for (const char* line : {"\n# output = some/run\n", "\n# log-dir = some/logs\n", "\n# overwrite = true\n"})
        EXPECT_NE(first.out.find(line), std::string::npos) << line;
    write_file(dir.path("resolved.cfg"), first.out);
    const Finished second =
        launch(2, "train --output some/run --log-dir some/logs --overwrite --print-config --config " +
                      dir.path("resolved.cfg"));
    ASSERT_EQ("", failure(second));
    EXPECT_EQ(second.out, first.out);
}

TEST(Options, FlagsWinOverTheFile) {
    const TempDir dir;
    write_file(dir.path("a.cfg"), "data = x\nbatch-size = 8\nlr = 0.5\nflip = true\nepochs = 7\n");
    const TrainOptions o = parse_train_options({"--lr", "0.25", "--config", dir.path("a.cfg"), "--flip=false"}).options;
    EXPECT_EQ(o.lr.value().rate, 0.25);
    EXPECT_FALSE(o.setup.augment.flip);
    EXPECT_EQ(o.setup.epochs, 7);
    EXPECT_EQ(o.batch_size, 8);
}

/// An option, a value, the case in which it has no effect, and the option that gives it one.
struct Pointless {
    const char *option, *value, *words, *remedy;
};
const Pointless pointless[] = {
    {"lr-milestones", "1,2", "--lr-schedule multistep", "lr-schedule=multistep"},
    {"lr-points", "0:1,2:0", "--lr-schedule linear", "lr-schedule=linear"},
    {"lr-step-epochs", "7", "--lr-schedule step", "lr-schedule=step"},
    {"lr-gamma", "0.5", "step or multistep", "lr-schedule=step"},
    {"momentum", "0.8", "sgd or muon", "optimizer=sgd"},
    {"nesterov", "true", "sgd or muon", "optimizer=muon"},
    {"lr-unit", "kilostep", "sgd or muon", "optimizer=sgd"},
    {"beta1", "0.8", "--optimizer adam", "optimizer=adam"},
    {"beta2", "0.8", "--optimizer adam", "optimizer=adam"},
    {"epsilon", "1e-7", "--optimizer adam", "optimizer=adam"},
    {"muon-momentum", "0.5", "--optimizer muon", "optimizer=muon"},
    {"decay", "weights", "--weight-decay", "weight-decay=0.1"},
    {"decay-mode", "decoupled", "--weight-decay", "weight-decay=0.1"},
    {"look-ahead-decay", "0.5", "--look-ahead", "look-ahead=5"},
    {"crop-scale", "0.2,1", "--random-resized-crop", "random-resized-crop=true"},
    {"crop-ratio", "0.5,2", "--random-resized-crop", "random-resized-crop=true"},
    {"crop-mode", "reflect", "--crop-pad", "crop-pad=2"},
    {"flip-mode", "alternate", "--flip", "flip=true"},
    {"on-audit", "warn", "--audit", "audit=1/50"},
    {"eval-every", "2", "--no-eval", "no-eval=false"},
    {"eval-images", "2", "--no-eval", "no-eval=false"},
    {"tta", "mirror", "--no-eval", "no-eval=false"},
    {"overwrite", "true", "--resume auto", "resume=none"},
    {"stream-block-mib", "64", "--data-placement stream", "data-placement=stream"},
    {"stem", "cifar", "a resnet (--model)", "model=resnet50"},
    {"init-skip", "fc.*", "--init-from", "init-from=a.h5"},
    {"freeze-batchnorm", "true", "--freeze", "freeze=conv1.*"},
};

TEST(Options, WhatHasNoEffectIsRefused) {
    const TempDir dir;
    for (const Pointless& p : pointless) {
        const std::string option = p.option, remedy = p.remedy, by = remedy.substr(0, remedy.find('='));
        std::string without = "constant";  // value of `by` with which the option has no effect
        if (by == "optimizer")
            without = option.starts_with("beta") || option == "epsilon" || option == "muon-momentum" ? "sgd" : "adam";
        if (by == "weight-decay" || by == "look-ahead" || by == "crop-pad") without = "0";
        if (by == "flip" || by == "random-resized-crop") without = "false";
        if (by == "no-eval") without = "true";
        if (by == "init-from" || by == "freeze") without = "none";
        if (by == "resume") without = "auto";
        if (by == "audit") without = "none";
        if (by == "data-placement") without = "replicate";
        if (by == "model") without = "mnist-conv";
        const std::vector<std::string> base = {"--data", "x", "--batch-size", "8", "--lr", "0.1", "--output", "y"};
        const auto with = [&](const std::vector<std::string>& more) {
            std::vector<std::string> args = base;
            args.insert(args.end(), more.begin(), more.end());
            return args;
        };
        const std::string flag = "--" + option + "=" + p.value, off = "--" + by + "=" + without;
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--" + option + ": has no effect", p.words},
                                       [&] { parse_train_options(with({flag, off})); }));
        EXPECT_NO_THROW(parse_train_options(with({flag, "--" + remedy}))) << option;
        if (option == "overwrite") continue;  // never in a file
        // In a file it is refused as well, unless a flag removed its effect.
        const std::string file = dir.path("a.cfg");
        write_file(file, option + " = " + p.value + "\n" + by + " = " + without + "\n");
        EXPECT_EQ("", problem_of_error(Exit::usage, {file + ": " + option + ": has no effect"},
                                       [&] { parse_train_options(with({"--config", file})); }));
        EXPECT_NO_THROW(parse_train_options(with({"--config", file, off}))) << option;
    }
}

TEST(Options, WhatTheModelOrTheDeviceLacksIsRefused) {
    const TempDir dir;
    make_data(dir.path("data"), 20, 10, "28x28x1");
    const std::string both = dir.path("both.cfg");  // a recipe serves several models, and GPUs and CPUs
    write_file(both, "model = mnist-linear\nsync-bn = true\nno-graph = true\nbatch-size = 4\n");
    EXPECT_EQ("", failure(launch(2, "train --dry-run --device cpu --data " + dir.path("data") + " --config " + both)));
    for (const auto& [option, words] : {std::pair{"--sync-bn", "no batch norm"},
                                        {"--norm-shift-lr 2", "no batch norm"},
                                        {"--filter-lr 2", "no convolutions"},
                                        {"--whitening-bias-epochs 2", "no whitening filters"},
                                        {"--data-placement node", "on CPUs"},
                                        {"--no-graph", "on CPUs"},
                                        {"--bf16-gradients", "on CPUs"},
                                        {"--norm-by kernels", "on CPUs"},
                                        {"--conv-by winograd", "no convolutions"},
                                        {"--devices 0", "on CPUs"},
                                        {"--share-device", "on CPUs"}}) {
        const std::string arguments =
            " --device cpu --data " + dir.path("data") + " --model mnist-linear --batch-size 4 " + option;
        const std::string name = std::string(option).substr(0, std::string(option).find(' '));
        EXPECT_EQ("", refusal(launch(2, "train" + arguments), Exit::usage, {name, "no effect", words}));
        // bench has --frozen instead
        const bool of_bench = name != "--whitening-bias-epochs";
        EXPECT_EQ("", refusal(convoy_alone("bench" + arguments), Exit::usage,
                              {name, of_bench ? "no effect" : "no meaning for bench", of_bench ? words : ""}));
    }
    EXPECT_EQ("", refusal(convoy_alone("bench --device cpu --model mnist-linear --batch-size 4 --one-stream"),
                          Exit::usage, {"--one-stream", "no effect", "on CPUs"}));
}

TEST(Options, OptionsOfOtherProgramsAreAnswered) {
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--test-batch-size", "convoy evaluate", "--batch-per-rank"}, [] {
                  parse_train_options({"--data", "x", "--batch-size", "8", "--test-batch-size", "4"});
              }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--lr fast", "one number", "auto"},
                                   [] { parse_train_options({"--data", "x", "--batch-size", "8", "--lr", "fast"}); }));
}

// Every option that is printed is in --help, with its default. So is every word there that starts
// with two dashes.
TEST(Options, HelpHasEveryOption) {
    const Finished help = convoy_alone("train --help");
    ASSERT_EQ("", failure(help));
    const auto resolved = parse_train_options({"--data", "x", "--batch-size", "1"}).resolved;
    EXPECT_GT(resolved.size(), 30u);
    for (const auto& [name, value] : resolved)
        EXPECT_NE(help.out.find("  --" + name + " "), std::string::npos) << name << " is not in --help";
    for (const char* name : {"--config", "--print-config", "--dry-run", "--help"})
        EXPECT_NE(help.out.find(name), std::string::npos) << name;
    const Finished bench = convoy_alone("bench --help");
    EXPECT_EQ("", failure(bench));
    EXPECT_NE(bench.out.find("--config FILE"), std::string::npos);
    EXPECT_EQ(bench.out.find("default output/"), std::string::npos) << "bench writes nothing by itself";
    for (const char* command : {"", "convert", "verify", "evaluate"}) {
        const Finished other = convoy_alone(std::string(command) + " --help");
        EXPECT_EQ("", failure(other));
        EXPECT_NE(other.out.find("usage: convoy"), std::string::npos) << command;
    }
}

/// Values that no option accepts.
const std::vector<std::vector<std::string>> out_of_range = {{"--epochs", "0"},
                                                            {"--epochs", "-1"},
                                                            {"--max-steps", "-1"},
                                                            {"--threads", "-1"},
                                                            {"--seed", "-1"},
                                                            {"--log-interval", "0"},
                                                            {"--eval-every", "-1"},
                                                            {"--bucket-mib", "-1"},
                                                            {"--bucket-mib", "0.0005"},
                                                            {"--momentum", "1.5"},
                                                            {"--momentum", "nan"},
                                                            {"--beta1", "1"},
                                                            {"--beta2", "1"},
                                                            {"--epsilon", "-1"},
                                                            {"--weight-decay", "-1"},
                                                            {"--warmup-epochs", "-1"},
                                                            {"--lr-gamma", "-1"},
                                                            {"--lr-step-epochs", "0"},
                                                            {"--label-smoothing", "2"},
                                                            {"--crop-pad", "-1"},
                                                            {"--stem", "round"},
                                                            {"--device", "tpu"},
                                                            {"--optimizer", "lion"},
                                                            {"--audit", "50"},
                                                            {"--audit", "1/0"},
                                                            {"--audit", "2/50"},
                                                            {"--audit", "1/50x"},
                                                            {"--audit", "1/"},
                                                            {"--on-audit", "skip"},
                                                            {"--decay", "none"},
                                                            {"--crop-mode", "wrap"},
                                                            {"--lr-schedule", "cosin"},
                                                            {"--lr", "-1"},
                                                            {"--lr", "fast"},
                                                            {"--lr", "nan"},
                                                            {"--lr", "1,2"},
                                                            {"--lr-points", "1"},
                                                            {"--lr-points", "0:1:2"},
                                                            {"--lr-points", ":1"},
                                                            {"--lr-points", "1:"},
                                                            {"--lr-points", "2:1,1:0"},
                                                            {"--stddev", "0,1,1"},
                                                            {"--mean", "a,b,c"},
                                                            {"--lr-milestones", "x"},
                                                            {"--epochs", "many"},
                                                            {"--norm-shift-lr", "0"},
                                                            {"--look-ahead", "-1"},
                                                            {"--look-ahead-decay", "1.5"},
                                                            {"--whitening-bias-epochs", "-1"},
                                                            {"--lr-unit", "mile"},
                                                            {"--loss", "median"},
                                                            {"--decay-mode", "none"},
                                                            {"--flip-mode", "never"},
                                                            {"--color-jitter", ""},
                                                            {"--color-jitter", "some"},
                                                            {"--color-jitter", "-0.1"},
                                                            {"--color-jitter", "10.5"},
                                                            {"--color-jitter", "0,0,0,0.6"},
                                                            {"--color-jitter", "0,0,0,-0.1"},
                                                            {"--color-jitter", "0.4,"},
                                                            {"--color-jitter", "0,0,0,0,0"},
                                                            {"--mixup", "1.5"},
                                                            {"--mixup", "0.001"},
                                                            {"--mixup", "1,1"},
                                                            {"--cutmix", "-1"},
                                                            {"--cutmix", "yes"},
                                                            {"--tta", "some"},
                                                            {"--epochs", "99999999999999999999"}};

TEST(Options, RangesAreRefused) {
    for (std::vector<std::string> args : out_of_range) {
        const std::string name = args[0];
        std::vector<std::string> all = {"--data", "x", "--batch-size", "8", args[0], args[1]};
        if (name == "--lr-points") all.insert(all.end(), {"--lr-schedule", "linear"});
        EXPECT_EQ("", problem_of_error(Exit::usage, {name}, [&] { parse_train_options(all); }))
            << name << " " << args[1];
    }
    for (const char* size : {"-3", "0"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--batch-size"},
                                       [&] { parse_train_options({"--data", "x", "--batch-size", size}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--lr-milestones"}, [] {
                  parse_train_options({"--data", "x", "--batch-size", "8", "--lr-schedule", "multistep"});
              }));
    EXPECT_EQ("", refusal(launch(2, "train --data x --batch-size 8 --momentum 1.5"), Exit::usage,
                          {"--momentum 1.5", "from 0 to 1"}));
    EXPECT_EQ("", refusal(convoy_alone("predict --explain steps.json"), Exit::usage,
                          {"--explain: 'steps.json' is not allowed; it takes true or false"}));
}

TEST(Options, DryRunSaysWhatItWouldDoAndDoesNothing) {
    const TempDir dir;
    make_data(dir.path("data"), 100, 20, "28x28x1");
    const Finished f =
        launch(2, "train --dry-run --data " + dir.path("data") +
                      " --model mnist-conv --batch-size 33 --epochs 3 --bucket-mib 0.01 --output " + dir.path("run"));
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("mnist-conv: 21,840 parameters"), std::string::npos) << f.out;
    EXPECT_NE(
        f.out.find("batch     33 global, 16 or 17 per rank; 4 steps per epoch, the last of 1 samples; 12 steps in all"),
        std::string::npos)
        << f.out;
    const size_t at = f.out.find("\nbuckets   ");
    ASSERT_NE(at, std::string::npos) << f.out;
    EXPECT_GT(std::stoi(f.out.substr(at + 11)), 1) << f.out;
    EXPECT_FALSE(fs::exists(dir.path("run")));
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1)
        << "something beside the data was written";
}

}  // namespace
}  // namespace convoy::test
