// Which trainings `convoy sweep` starts, and what it refuses before the first.
#include <gtest/gtest.h>

#include "cli/sweep_spec.h"
#include "cli/train_options.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
using Words = std::vector<std::string>;

/// Arguments that a training needs, and more.
Words with(const Words& more) {
    Words args = {"--data", "x", "--batch-size", "8"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
}

Words names_of(const SweepSpec& spec) {
    Words names;
    for (const SweepRun& run : spec.runs) names.push_back(run.name);
    return names;
}

std::string value_of(const SweepRun& run, const std::string& option) {
    std::string value = "not given";
    for (size_t i = 0; i < run.args.size(); ++i) {
        if (run.args[i] == "--" + option) value = run.args.at(i + 1);
        if (run.args[i].starts_with("--" + option + "=")) value = run.args[i].substr(option.size() + 3);
    }
    return value;
}

TEST(SweepSpec, IsEveryCombination) {
    const SweepSpec one = parse_sweep(with({"lr=0.01,0.03,0.1", "--output", "o"}), "unused");
    EXPECT_EQ(names_of(one), (Words{"lr-0.01", "lr-0.03", "lr-0.1"}));
    EXPECT_EQ(value_of(one.runs[1], "lr"), "0.03");
    EXPECT_EQ(value_of(one.runs[1], "output"), "o/lr-0.03");
    EXPECT_EQ(value_of(one.runs[1], "data"), "x");
    EXPECT_EQ(one.ranks, 0);
    const SweepSpec two = parse_sweep({"lr=1,2", "seed=3,4", "--data", "x", "--batch-size=8", "--ranks", "2"}, "here");
    EXPECT_EQ(names_of(two), (Words{"lr-1,seed-3", "lr-1,seed-4", "lr-2,seed-3", "lr-2,seed-4"}));
    EXPECT_EQ(value_of(two.runs[3], "output"), "here/lr-2,seed-4");
    EXPECT_EQ(value_of(two.runs[3], "ranks"), "not given") << "train has no such option";
    EXPECT_EQ(two.ranks, 2);
}

// A user could type each command that it starts.
TEST(SweepSpec, StartsTrainingsThatTrainTakes) {
    const SweepSpec spec = parse_sweep({"--epochs", "2", "lr=0.1,0.2", "--flip", "batch-size=4,8", "--data", "x"}, "o");
    ASSERT_EQ(spec.runs.size(), 4u);
    const TrainOptions o = parse_train_options(spec.runs[3].args).options;
    EXPECT_EQ(o.lr->rate, 0.2);
    EXPECT_EQ(o.batch_size, 8);
    EXPECT_EQ(o.setup.epochs, 2);
    EXPECT_TRUE(o.setup.augment.flip);
    EXPECT_TRUE(o.resume.newest) << "a sweep that is started again goes on";
    EXPECT_EQ(o.run.keep, 0) << "no checkpoint is left of a run that is done";
    EXPECT_EQ(o.output, "o/lr-0.2,batch-size-8");
}

TEST(SweepSpec, KeepsCheckpointsWhereTheyAreAskedFor) {
    EXPECT_EQ(value_of(parse_sweep(with({"lr=1,2", "--keep", "3"}), "o").runs[0], "keep"), "3");
    const SweepSpec none = parse_sweep(with({"lr=1,2", "--checkpoint-every", "none"}), "o");
    EXPECT_EQ(value_of(none.runs[0], "checkpoint-every"), "none");
}

TEST(SweepSpec, VariesSwitchesWordsAndPaths) {
    EXPECT_EQ(names_of(parse_sweep(with({"flip=true,false"}), "o")), (Words{"flip-true", "flip-false"}));
    EXPECT_EQ(names_of(parse_sweep(with({"optimizer=sgd,adam"}), "o")), (Words{"optimizer-sgd", "optimizer-adam"}));
    const SweepSpec paths = parse_sweep({"data=a/b/one,../two/", "--batch-size", "8"}, "o");
    EXPECT_EQ(names_of(paths), (Words{"data-one", "data-two"}));
    EXPECT_EQ(value_of(paths.runs[1], "data"), "../two/");
    const SweepSpec recipes =
        parse_sweep({"config=input/recipes/mnist-linear.cfg,input/recipes/mnist-conv.cfg", "--data", "x"}, "o");
    EXPECT_EQ(names_of(recipes), (Words{"config-mnist-linear.cfg", "config-mnist-conv.cfg"}));
}

TEST(SweepSpec, IsPrintedWithoutItsFolderToBeContinued) {
    const SweepSpec spec = parse_sweep({"lr=1,2", "--output=o", "--data", "x", "--batch-size", "8", "--ranks=2"}, "");
    EXPECT_EQ(spec.output, "o");
    EXPECT_EQ(spec.args, (Words{"lr=1,2", "--data", "x", "--batch-size", "8", "--ranks=2"}));
}

TEST(SweepSpec, RefusesMistakesBeforeTheFirstTraining) {
    const std::vector<std::pair<Words, Words>> mistakes = {
        {{}, {"which option"}},
        {{"lrr=0.1,0.2"}, {"--lrr", "did you mean --lr?"}},
        {{"lr"}, {"'lr'", "lr=0.01,0.1"}},
        {{"=1,2"}, {"no option --"}},
        {{"lr="}, {"lr=", "missing"}},
        {{"lr=0.1,,0.2"}, {"missing"}},
        {{"lr=0.1,"}, {"missing"}},
        {{"lr=0.1,0.2,0.1"}, {"0.1", "twice"}},
        {{"lr=0.1,fast"}, {"--lr", "fast"}},
        {{"epochs=1,-3"}, {"--epochs"}},
        {{"optimizer=sgd,adm"}, {"--optimizer", "adm"}},
        {{"lr=0.1,0.2", "lr=0.3"}, {"lr", "twice"}},
        {{"lr=0.1,0.2", "--lr", "0.3"}, {"--lr", "lr=0.1,0.2"}},
        {{"batch-size=4,8"}, {"--batch-size", "leave one"}},
        {{"output=a,b"}, {"--output"}},
        {{"dry-run=true,false"}, {"--dry-run"}},
        {{"ranks=1,2"}, {"--ranks"}},
        {{"lr=0.1,0.2", "--resume", "auto"}, {"--resume", "sweep"}},
        {{"lr=0.1,0.2", "--overwrite"}, {"--overwrite", "sweep"}},
        {{"lr=0.1,0.2", "--epoch", "3"}, {"--epoch", "did you mean --epochs?"}},
        {{"lr=0.1,0.2", "--momentum"}, {"--momentum", "missing"}},
        {{"lr=0.1,0.2", "--ranks", "-1"}, {"--ranks"}},
        {{"lr=0.1,0.2", "--output"}, {"--output", "missing"}},
        {{"lr=0.1,0.2", "--output="}, {"--output", "missing"}},
        {{"lr=0.1,0.2", "--output", "--flip"}, {"--output", "missing"}},
        {{"config=a/x.cfg,b/x.cfg"}, {"config-x.cfg", "one folder"}}};
    for (const auto& [more, words] : mistakes)
        EXPECT_EQ("", problem_of_error(Exit::usage, words, [&args = more] { parse_sweep(with(args), "o"); }))
            << testing::PrintToString(more);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--data"}, [] { parse_sweep({"lr=1,2", "--batch-size", "8"}, "o"); }));
    std::string many = "seed=0";
    for (int i = 1; i < 1001; ++i) many += "," + std::to_string(i);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"1000"}, [&] { parse_sweep(with({many}), "o"); }));
}

}  // namespace
}  // namespace convoy::test
