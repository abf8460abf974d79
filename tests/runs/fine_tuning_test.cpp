// Trainings that start from weights of a file: --init-from, --init-skip, --freeze,
// --freeze-batchnorm and --lr-factor. What must stay is compared bit for bit with the file, steps
// with the gradient of a training that freezes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "model/models.h"
#include "model/name_patterns.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

class FineTuning : public testing::Test {
protected:
    /// Returns `train` into folder `run` of grey images, or of 8x8 colour images with `resnet`.
    std::string train(const std::string& run, const std::string& options, bool resnet = false) {
        const std::string data = dir_.path(resnet ? "colour" : "grey");
        if (!fs::exists(data)) make_data(data, 24, 8, resnet ? "8x8x3" : "28x28x1", 1);
        return "train --data " + data + " --model " + (resnet ? "resnet18 --stem cifar" : "mnist-conv") +
               " --batch-size 8 --max-steps 3 --momentum 0 --output " + dir_.path(run) + " " + options;
    }
    /// Trains, and returns the tensors of the model.
    Tensors trained(const std::string& run, const std::string& options, bool resnet = false, int ranks = 1) {
        const Finished f = launch(ranks, train(run, options, resnet));
        EXPECT_EQ("", failure(f));
        said_ = f.out;
        return tensors(dir_.path(run) + "/model.h5");
    }
    /// Returns the names of the tensors that differ.
    static std::vector<std::string> changed(const Tensors& a, const Tensors& b) {
        std::vector<std::string> names;
        for (const auto& [name, values] : a)
            if (b.at(name) != values) names.push_back(name);
        return names;
    }
    std::string from(const std::string& run) const { return "--init-from " + dir_.path(run) + " "; }

    TempDir dir_;
    std::string said_;  ///< by the last training
};

TEST_F(FineTuning, StartsFromEachKindOfFile) {
    const Tensors first = trained("first", "--lr 0.1");
    const std::string model = dir_.path("first") + "/model.h5", weights = dir_.path("weights.safetensors");
    ASSERT_EQ("", failure(convoy_alone("export --model-file " + model + " --to " + weights)));
    std::string checkpoint;
    for (const auto& entry : fs::directory_iterator(dir_.path("first") + "/checkpoints")) checkpoint = entry.path();
    for (const std::string& file : {model, dir_.path("first"), checkpoint, weights}) {
        EXPECT_EQ(changed(first, trained("again", "--overwrite --lr 0 --seed 2 --init-from " + file)),
                  std::vector<std::string>())
            << file;
        EXPECT_NE(said_.find("weights   8 of 8 tensors from " + file), std::string::npos) << said_;
    }
    trained("again", "--overwrite --lr 0 " + from("first"));
    EXPECT_NE(said_.find("tensors from " + dir_.path("first") + "/model-best.h5\n"), std::string::npos) << said_;
    EXPECT_EQ(changed(first, trained("other", "--lr 0 --seed 2")).size(), 8u);  // without, it would have shown
}

TEST_F(FineTuning, FrozenParametersKeepTheirBitsAndTheOthersTheirGradient) {
    trained("first", "--lr 0.1");
    const std::string step = from("first") + "--lr 0.1 --max-steps 1 ";
    const Tensors first = tensors(dir_.path("first") + "/model.h5"), all = trained("all", step),
                  some = trained("some", step + "--freeze 'conv*,fc1.bias'");
    EXPECT_EQ(changed(first, all).size(), 8u);
    EXPECT_EQ(changed(first, some), (std::vector<std::string>{"fc1.weight", "fc2.bias", "fc2.weight"}));
    for (const char* name : {"fc1.weight", "fc2.bias", "fc2.weight"}) EXPECT_EQ(some.at(name), all.at(name)) << name;
    EXPECT_NE(said_.find("trained   16,510 parameters; the other 5,330 are frozen"), std::string::npos) << said_;
}

TEST_F(FineTuning, FrozenParametersHaveNoGradientInTheBucketsAndNoOptimizerState) {
    const Finished f = convoy_alone(train("dry", "--freeze 'conv*,fc1.*' --momentum 0.9 --dry-run"));
    ASSERT_EQ("", failure(f));
    // 16 counts, then fc2's weight [10, 50] and bias [10], each padded to a multiple of 16
    const double mib = (16 + 512 + 16) * 4 / 1048576.0;
    EXPECT_NE(f.out.find("1 of gradients, in backward order: " + formatted("%.1f MiB", mib)), std::string::npos)
        << f.out;
    EXPECT_NE(f.out.find(formatted("0.1 MiB parameters, %.1f MiB gradients", mib)), std::string::npos) << f.out;
    const Finished whole = convoy_alone(train("dry", "--dry-run"));
    EXPECT_NE(whole.out.find("in backward order: 0.1 MiB"), std::string::npos) << whole.out;
}

TEST_F(FineTuning, AFactorMultipliesTheStepOfWhatItNames) {
    const Tensors first = trained("first", "--lr 0.1");
    const std::string step = from("first") + "--lr 0.01 --max-steps 1 ";
    const Tensors one = trained("one", step), ten = trained("ten", step + "--lr-factor 'fc*=2,fc2.*=10'");
    EXPECT_EQ(changed(ten, trained("list", step + "--lr-factor 'fc*=2' --lr-factor 'fc2.*=10'")),
              std::vector<std::string>())
        << "lists add up";
    EXPECT_NE(said_.find("; --lr-factor fc1.bias 2, fc1.weight 2, fc2.bias 10, fc2.weight 10\n"), std::string::npos)
        << said_;
    for (const auto& [name, w] : first) {
        const double factor = name.starts_with("fc2") ? 10 : name.starts_with("fc") ? 2 : 1;
        double worst = 0, largest = 0;
        for (size_t i = 0; i < w.size(); ++i) {
            const double step_of_one = double(one.at(name)[i]) - w[i], step_of_ten = double(ten.at(name)[i]) - w[i];
            worst = std::max(worst, std::abs(step_of_ten - factor * step_of_one));
            largest = std::max(largest, std::abs(step_of_ten));
        }
        EXPECT_GT(largest, 1e-5) << name;
        // each weight is rounded once: half a unit in the last place of a number below 1
        EXPECT_LT(worst, (1 + factor) * 0x1p-24) << name;
    }
}

TEST_F(FineTuning, TheLastFactorThatMatchesCounts) {
    const Graph graph = build_model({"mnist-conv", 28, 28, 1, 10});
    using Factors = std::map<std::string, double>;
    EXPECT_EQ(factors_by_name({{"fc1.weight", 7}, {"fc2.bias", 10}}, graph),
              (Factors{{"fc1.weight", 7}, {"fc2.bias", 10}}));
    EXPECT_EQ(factors_by_name({{"fc1.*", 7}, {"*.bias", 3}, {"fc1.bias", 5}, {"conv*.bias", 1}}, graph),
              (Factors{{"fc1.weight", 7}, {"fc1.bias", 5}, {"fc2.bias", 3}, {"conv1.bias", 1}, {"conv2.bias", 1}}));
}

TEST_F(FineTuning, NoneSwitchesTheOptionsOfARecipeOff) {
    write_file(
        dir_.path("a.cfg"),
        "init-from = none.h5\ninit-skip = fc2.*\nfreeze = conv*\nfreeze-batchnorm = true\nlr-factor = fc2.*=10\n");
    const std::string recipe = "--lr 0.1 --config " + dir_.path("a.cfg") + " ",
                      off = "--init-from none --freeze none --lr-factor none ";
    const Tensors plain = trained("plain", "--lr 0.1");
    for (const std::string more : {"", "--init-skip none --freeze-batchnorm=false"}) {
        EXPECT_EQ(changed(plain, trained("off", "--overwrite " + recipe + off + more)), std::vector<std::string>());
        const Finished recorded = convoy_alone(train("off", recipe + off + more + " --print-config"));
        for (const char* option : {"init-from", "init-skip", "freeze", "lr-factor"})
            EXPECT_EQ(value_in(recorded.out, option), "none") << option;
        EXPECT_EQ(value_in(recorded.out, "freeze-batchnorm"), "false");
    }
    EXPECT_EQ("",
              refusal(launch(1, train("on", recipe + "--freeze none --lr-factor none")), Exit::bad_input, {"none.h5"}));
}

TEST_F(FineTuning, AnotherNumberOfClassesMakesANewHeadAndSaysSo) {
    const Tensors first = trained("first", "--lr 0.1");
    make_data(dir_.path("five"), 24, 8, "28x28x1", 1, 5);
    const std::string five = "--data " + dir_.path("five") + " --lr 0 --seed 5 ";
    const auto run = [&](const std::string& name, const std::string& options) {
        const Finished f = launch(1, "train --model mnist-conv --batch-size 8 --max-steps 1 --output " +
                                         dir_.path(name) + " " + five + options);
        EXPECT_EQ("", failure(f));
        said_ = f.out;
        return tensors(dir_.path(name) + "/model.h5");
    };
    const Tensors tuned = run("tuned", from("first"));
    EXPECT_NE(said_.find("; new for 5 classes: fc2.weight, fc2.bias"), std::string::npos) << said_;
    const Tensors fresh = run("fresh", "");
    for (const auto& [name, values] : tuned)
        EXPECT_EQ(values, (name.starts_with("fc2") ? fresh : first).at(name)) << name;
}

TEST_F(FineTuning, SkippedTensorsStartAnew) {
    const Tensors first = trained("first", "--lr 0.1"), fresh = trained("fresh", "--lr 0 --seed 5");
    const Tensors tuned = trained("tuned", from("first") + "--lr 0 --seed 5 --init-skip 'fc1.*'");
    EXPECT_NE(said_.find("; new by --init-skip: fc1.weight, fc1.bias"), std::string::npos) << said_;
    for (const auto& [name, values] : tuned)
        EXPECT_EQ(values, (name.starts_with("fc1") ? fresh : first).at(name)) << name;
}

// Mean and deviation are those that the weights were trained with, and stay so when the file is
// gone.
TEST_F(FineTuning, ContinuesBitForBitWithoutTheFile) {
    trained("first", "--lr 0.1 --mean 0.3 --stddev 0.7");
    const std::string tuned = from("first") + "--lr 0.05 --freeze 'conv1.*' --max-steps 6 --checkpoint-every 2 ";
    const Tensors whole = trained("whole", tuned);
    trained("parts", tuned + "--max-steps 4");
    fs::remove_all(dir_.path("first"));
    EXPECT_EQ(changed(whole, trained("parts", tuned + "--resume auto")), std::vector<std::string>());
    EXPECT_EQ(column(dir_.path("whole"), "train/loss"), column(dir_.path("parts"), "train/loss"));
    const Finished info = convoy_alone("info " + dir_.path("parts") + "/model.h5");
    EXPECT_NE(info.out.find("0.3"), std::string::npos) << info.out;
    EXPECT_EQ("", refusal(launch(1, train("parts", "--lr 0.05 --max-steps 8 --resume auto")), Exit::usage,
                          {"frozen parameters (--freeze)"}));
    // Without a checkpoint the run would begin from the file it recorded, which may be another.
    for (const char* part : {"/checkpoints", "/model.h5", "/model-best.h5"}) fs::remove_all(dir_.path("parts") + part);
    EXPECT_EQ("", refusal(launch(1, "train --resume auto --output " + dir_.path("parts")), Exit::usage,
                          {"recorded --init-from", "give --init-from too"}));
}

TEST_F(FineTuning, ResumesWithOtherPatternsOfTheSameParameters) {
    const std::string some = "--lr 0.05 --checkpoint-every 2 --max-steps ", resume = " --resume auto";
    const Tensors whole = trained("whole", some + "6 --freeze 'conv1.*'");
    trained("parts", some + "4 --freeze 'conv1.*'");
    EXPECT_EQ(changed(whole, trained("parts", some + "6 --freeze conv1.bias --freeze 'c*1.weight'" + resume)),
              std::vector<std::string>());
    trained("parts", some + "8 --freeze 'conv1.*'" + resume);
    const auto refused = [&](const std::string& options, const std::vector<std::string>& words, bool resnet = false) {
        EXPECT_EQ("", refusal(launch(2, train(resnet ? "norms" : "parts", some + options + resume, resnet)),
                              Exit::usage, words))
            << options;
    };
    const std::string remedy = "give --freeze 'conv1.*', or start";
    refused("9 --freeze conv1.bias", {"run to resume: it also keeps conv1.weight; ", remedy});
    refused("9 --freeze 'conv*'", {"run to resume: it does not keep conv2.bias, conv2.weight; ", remedy});
    refused("9 --freeze 'fc1.*'", {"it also keeps conv1.bias, conv1.weight, and it does not keep fc1.bias, fc1.w"});
    refused("9 --freeze none", {"it also keeps conv1.bias, conv1.weight; ", remedy});
    const std::string norms = "1 --freeze 'stem.*,stage1.*' --freeze-batchnorm";
    trained("norms", some + norms, true);
    refused("2 --freeze 'stem.*,stage1.*'", {".mean, ", " more; give --freeze 'stem.*,stage1.*' --freeze-batchnorm"},
            true);
    EXPECT_EQ("", failure(convoy_alone(train("norms",
                                             "--lr 0.05 --max-steps 2 --dry-run --freeze-batchnorm --freeze "
                                             "'conv1.*,bn1.*,layer1.*'" +
                                                 resume,
                                             true))));
}

TEST_F(FineTuning, FrozenBatchNormsKeepTheirStatistics) {
    const Tensors first = trained("first", "--lr 0.1", true);
    const std::string tuned = from("first") + "--lr 0.1 --max-steps 1 ", frozen = "--freeze 'stem.*,stage[123].*' ",
                      pytorch = "--freeze 'conv1.*,bn1.*,layer[123].*' --freeze-batchnorm ";
    std::vector<std::string> parameters, statistics;
    for (const auto& [name, values] : first)
        if (name.starts_with("stem") || (name.starts_with("stage") && name[5] < '4'))
            (name.ends_with(".mean") || name.ends_with(".var") ? statistics : parameters).push_back(name);
    const std::vector<std::string> by_weights = changed(first, trained("weights", tuned + frozen, true)),
                                   by_both = changed(first, trained("both", tuned + pytorch, true));
    for (const std::string& name : parameters) {
        EXPECT_EQ(std::ranges::count(by_weights, name), 0) << name;
        EXPECT_EQ(std::ranges::count(by_both, name), 0) << name;
    }
    for (const std::string& name : statistics) {
        EXPECT_EQ(std::ranges::count(by_weights, name), 1) << name;
        EXPECT_EQ(std::ranges::count(by_both, name), 0) << name;
    }
    EXPECT_EQ(by_both.size(), first.size() - parameters.size() - statistics.size());
}

TEST_F(FineTuning, IsTheSameBitsOnAnyNumberOfRanks) {
    trained("first", "--lr 0.1", true);
    const std::string tuned =
        from("first") + "--lr 0.1 --virtual-ranks 3 --freeze 'stem.*,stage1.*,stage3.*.bn*' --freeze-batchnorm ";
    const Tensors one = trained("one", tuned, true);
    EXPECT_EQ(changed(one, trained("two", tuned, true, 2)), std::vector<std::string>());
}

TEST_F(FineTuning, RefusesWhatDoesNotFit) {
    trained("first", "--lr 0.1");
    const auto refused = [&](const std::string& options, Exit code, const std::vector<std::string>& words,
                             bool resnet = false) {
        EXPECT_EQ("", refusal(launch(2, train("refused", options, resnet)), code, words)) << options;
        EXPECT_FALSE(fs::exists(dir_.path("refused"))) << options;
    };
    const std::string first = from("first");
    EXPECT_EQ("", refusal(launch(2, train("first", first + "--overwrite")), Exit::usage,
                          {"--overwrite would delete the weights of --init-from"}));
    EXPECT_TRUE(fs::exists(dir_.path("first") + "/model.h5"));
    refused(first, Exit::bad_input, {"holds mnist-conv", "give --model mnist-conv"}, true);
    refused("--init-from " + dir_.path("none.h5"), Exit::bad_input, {"none.h5"});
    refused("--init-from README.md", Exit::bad_input, {"README.md"});
    refused(first + "--init-skip 'fc9.*'", Exit::usage, {"--init-skip fc9.*: matches no tensor"});
    refused("--init-skip 'fc2.*'", Exit::usage, {"--init-skip: has no effect without --init-from"});
    refused("--freeze-batchnorm", Exit::usage, {"--freeze-batchnorm: has no effect without --freeze"});
    refused("--freeze 'layer1.*'", Exit::usage, {"matches no parameter of mnist-conv", "conv1, conv2, fc1, fc2"});
    refused("--freeze '*'", Exit::usage, {"leaves no parameter of mnist-conv to train"});
    refused("--freeze 'conv1.*' --freeze-batchnorm", Exit::usage, {"names no whole batch norm"});
    refused("--freeze 'fc1.*,,fc2.*'", Exit::usage, {"names separated by commas"});
    refused("--lr-factor 'fc1.*'", Exit::usage, {"write NAME=FACTOR"});
    refused("--lr-factor 'fc1.*=-1'", Exit::usage, {"write NAME=FACTOR"});
    refused("--lr-factor 'fc1.*=2' --freeze 'fc1.*'", Exit::usage, {"matches only parameters that are not trained"});
    write_file(dir_.path("nan.py"), R"(
import sys, h5py
with h5py.File(sys.argv[1], "r+") as file:
    file["tensors/fc1.bias"][..., 3] = float("nan")
)");
    if (run("${PYTHON:-/usr/bin/python3} " + dir_.path("nan.py") + " " + dir_.path("first") + "/model.h5").code == 0)
        refused("--init-from " + dir_.path("first") + "/model.h5", Exit::bad_input,
                {"tensor fc1.bias has a value that is not finite"});
}

}  // namespace
}  // namespace convoy::test
