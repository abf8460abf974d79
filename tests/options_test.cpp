// The options of `convoy train` as users meet them: what is printed can be read back, flags win over a file, ranges are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "cli/train_options.h"
#include "cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// The value of `key` in a printed config, "" if it is not set there.
std::string value_of(const std::string& config, const std::string& key) {
    std::istringstream in(config);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(key + " = ")) return line.substr(key.size() + 3);
    return "";
}

TEST(Options, PrintedConfigReadsBack) {
    const TempDir dir;
    const std::string given =
        "train --data some/where --model mnist-conv --batch-size 48 --lr 0.123456789 --weight-decay 5e-4 --nesterov "
        "--lr-schedule linear --lr-points 0:0.2,2:1,8:0 --mean 0.1307 --stddev 0.3081 --epsilon 1e-7 --flip --seed 123456789";
    const Finished first = convoy_alone(given + " --print-config");
    ASSERT_EQ("", failure(first));
    EXPECT_EQ(value_of(first.out, "lr"), "0.123456789");
    EXPECT_EQ(value_of(first.out, "weight-decay"), "0.0005");
    EXPECT_EQ(value_of(first.out, "nesterov"), "true");
    EXPECT_EQ(value_of(first.out, "lr-points"), "0:0.2,2:1,8:0");
    EXPECT_EQ(value_of(first.out, "seed"), "123456789");
    write_file(dir.path("resolved.cfg"), first.out);
    const Finished second = launch(2, "train --print-config --config " + dir.path("resolved.cfg"));
    ASSERT_EQ("", failure(second));
    EXPECT_EQ(second.out, first.out);
}

TEST(Options, FlagsWinOverTheFile) {
    const TempDir dir;
    write_file(dir.path("a.cfg"), "data = x\nbatch-size = 8\nlr = 0.5\nflip = true\nepochs = 7\n");
    const TrainOptions o = parse_train_options({"--lr", "0.25", "--config", dir.path("a.cfg"), "--flip=false"}).options;
    EXPECT_EQ(o.lr, "0.25");
    EXPECT_FALSE(o.flip);
    EXPECT_EQ(o.epochs, 7);
    EXPECT_EQ(o.batch_size, 8);
}

// Every option that is printed stands in --help, with its default; so does every word that starts with two dashes there.
TEST(Options, HelpHasEveryOption) {
    const Finished help = convoy_alone("train --help");
    ASSERT_EQ("", failure(help));
    const auto resolved = parse_train_options({"--data", "x", "--batch-size", "1"}).resolved;
    EXPECT_GT(resolved.size(), 30u);
    for (const auto& [name, value] : resolved)
        EXPECT_NE(help.out.find("  --" + name + " "), std::string::npos) << name << " is not in --help";
    for (const char* name : {"--config", "--print-config", "--dry-run", "--help"})
        EXPECT_NE(help.out.find(name), std::string::npos) << name;
    for (const char* command : {"", "convert", "verify", "evaluate"}) {
        const Finished other = convoy_alone(std::string(command) + " --help");
        EXPECT_EQ("", failure(other));
        EXPECT_NE(other.out.find("usage: convoy"), std::string::npos) << command;
    }
}

TEST(Options, RangesAreRefused) {
    const std::vector<std::vector<std::string>> bad = {{"--epochs", "0"},
                                                       {"--epochs", "-1"},
                                                       {"--max-steps", "-1"},
                                                       {"--threads", "-1"},
                                                       {"--seed", "-1"},
                                                       {"--log-interval", "0"},
                                                       {"--eval-every", "-1"},
                                                       {"--bucket-mib", "0"},
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
                                                       {"--tta", "some"},
                                                       {"--epochs", "99999999999999999999"}};
    for (std::vector<std::string> args : bad) {
        const std::string name = args[0];
        std::vector<std::string> all = {"--data", "x", "--batch-size", "8", args[0], args[1]};
        if (name == "--lr-points") all.insert(all.end(), {"--lr-schedule", "linear"});
        EXPECT_EQ("", problem_of_error(Exit::usage, {name}, [&] { parse_train_options(all); })) << name << " " << args[1];
    }
    for (const char* size : {"-3", "0"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--batch-size"}, [&] { parse_train_options({"--data", "x", "--batch-size", size}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--lr-milestones"}, [] {
                  parse_train_options({"--data", "x", "--batch-size", "8", "--lr-schedule", "multistep"});
              }));
    EXPECT_EQ("", refusal(launch(2, "train --data x --batch-size 8 --momentum 1.5"), Exit::usage, {"--momentum 1.5", "from 0 to 1"}));
}

TEST(Options, DryRunSaysWhatItWouldDoAndDoesNothing) {
    const TempDir dir;
    make_data(dir.path("data"), 100, 20, "28x28x1");
    const Finished f = launch(2, "train --dry-run --data " + dir.path("data") +
                                     " --model mnist-conv --batch-size 33 --epochs 3 --bucket-mib 0.01 --output " + dir.path("run"));
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("mnist-conv: 21,840 parameters"), std::string::npos) << f.out;
    EXPECT_NE(f.out.find("batch     33 global, 16 or 17 a rank; 4 steps an epoch, the last of 1 samples; 12 steps in all"),
              std::string::npos)
        << f.out;
    const size_t at = f.out.find("\nbuckets   ");
    ASSERT_NE(at, std::string::npos) << f.out;
    EXPECT_GT(std::stoi(f.out.substr(at + 11)), 1) << f.out;
    EXPECT_FALSE(fs::exists(dir.path("run")));
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1) << "something beside the data was written";
}

TEST(Options, EveryRecipeParses) {
    int recipes = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator("input/recipes")) {
        if (entry.path().extension() != ".cfg") continue;
        ++recipes;
        const Finished f = convoy_alone("train --data x --print-config --config " + entry.path().string());
        EXPECT_EQ("", failure(f)) << entry.path();
        EXPECT_NE(value_of(f.out, "model"), "");
    }
    if (recipes == 0) GTEST_SKIP() << "input/recipes is empty";
}

}  // namespace
}  // namespace convoy::test
