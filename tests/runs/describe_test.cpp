// convoy info PATH, started as users start it: what it says about a run, a model file, a checkpoint
// and a data set is what h5py finds in their files.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/cluster.h"
#include "tests/support/images.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Describe : public testing::Test {
protected:
    Describe() { make_data(data_, 60, 20, "28x28x1"); }
    std::string train(const std::string& more) const {
        return "train --device cpu --threads 1 --model mnist-linear --batch-size 20 --data " + data_ + " --output " +
               run_ + " " + more;
    }
    /// Returns the text of one line of `convoy info PATH`.
    static std::string line(const std::string& path, const std::string& name) {
        const Finished f = convoy_alone("info " + path);
        EXPECT_EQ("", failure(f));
        const std::string start = "\n" + name + std::string(13 - name.size(), ' '), text = "\n" + f.out;
        const size_t at = text.find(start);
        if (at == std::string::npos) return "no line " + name + " in " + f.out;
        return text.substr(at + start.size(), text.find('\n', at + 1) - at - start.size());
    }

    TempDir dir_;
    const std::string data_ = dir_.path("data"), run_ = dir_.path("run");
};

TEST_F(Describe, ARunSaysHowItEndedAndWhatItHas) {
    ASSERT_EQ("", failure(convoy_alone(train("--epochs 2"))));
    EXPECT_TRUE(line(run_, "state").starts_with("finished 20")) << line(run_, "state");
    EXPECT_EQ(line(run_, "data"), data_);
    EXPECT_EQ(line(run_, "model"), "mnist-linear, f32, images of 28x28x1");
    EXPECT_TRUE(line(run_, "trained").starts_with("2 epochs, 6 steps of 20 images in 0m0")) << line(run_, "trained");
    const std::vector<double> accuracy = column(run_, "eval/accuracy");
    ASSERT_EQ(accuracy.size(), 2u);
    const size_t best = accuracy[1] > accuracy[0] ? 1 : 0;
    EXPECT_EQ(line(run_, "accuracy"), formatted("%.2f %% after epoch 2; best %.2f %% after epoch %zu",
                                                100 * accuracy[1], 100 * accuracy[best], best + 1));
    EXPECT_EQ(line(run_, "files"), "model.h5, model-best.h5, 2 checkpoints, the last one step-000000000006.h5");
    EXPECT_EQ(line(run_ + "/metrics.h5", "run"), run_);
}

TEST_F(Describe, ARunThatWasKilledOrStoppedSaysSo) {
    const std::string endless = sibling("convoy") + " " + train("--epochs 1000000 --eval-every 0");
    EXPECT_NE(run("timeout -s KILL 3 " + endless).code, 0);
    const std::string killed = line(run_, "state");
    EXPECT_TRUE(killed.starts_with("not finished: it runs, or was killed; last written 0m0")) << killed;
    EXPECT_EQ(line(run_, "accuracy"), "not evaluated");
    EXPECT_EQ(run("timeout -s USR1 3 " + endless + " --overwrite; test $? = 124").code, 0);
    EXPECT_TRUE(line(run_, "state").starts_with("stopped at step ")) << line(run_, "state");
    EXPECT_NE(line(run_, "state").find("SIGUSR1"), std::string::npos) << line(run_, "state");
}

TEST_F(Describe, AModelFileSaysWhatItTakesAndGives) {
    ASSERT_EQ("", failure(convoy_alone(train("--epochs 1"))));
    const std::string model = run_ + "/model.h5", checkpoint = run_ + "/checkpoints/step-000000000003.h5";
    for (const std::string& path : {model, checkpoint}) {
        // 784 * 10 weights and 10 biases
        EXPECT_EQ(line(path, "model"),
                  "mnist-linear: 7,850 parameters, 0.000 GFLOP per image (multiply-adds count two)");
        EXPECT_EQ(line(path, "input"), "images of 28x28x1, (pixel / 255 - mean) / deviation");
        EXPECT_EQ(line(path, "classes"),
                  "10: class 0, class 1, class 2, class 3, class 4, class 5, class 6, class 7, class 8, class 9");
    }
    EXPECT_TRUE(line(model, "model file").starts_with(model)) << line(model, "model file");
    EXPECT_TRUE(line(checkpoint, "checkpoint").starts_with(checkpoint)) << line(checkpoint, "checkpoint");
    const std::string python = python_with("h5py");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    EXPECT_EQ(line(model, "mean") + "\n",
              run(python + " -c \"import h5py; print('%.4g' % h5py.File('" + model + "').attrs['mean'][0])\"").out);
}

TEST_F(Describe, ADataSetSaysItsSplitsAndImages) {
    EXPECT_EQ(line(data_, "train"), "60 images in 2 shards, 0.0 MiB in memory");
    EXPECT_EQ(line(data_, "test"), "20 images in 1 shard, 0.0 MiB in memory");
    EXPECT_EQ(line(data_, "images"), "28x28x1");
    EXPECT_EQ(line(data_, "SHA-256"),
              run("sha256sum " + data_ + "/manifest.json | cut -d' ' -f1 | tr -d '\\n'").out + " (of manifest.json)");
    make_ragged(dir_.path("ragged"), ImageLayout::jpeg);
    EXPECT_TRUE(line(dir_.path("ragged"), "images").starts_with("of different sizes, up to "));
    EXPECT_EQ(line(dir_.path("ragged"), "train").substr(0, 21), "40 images in 2 shards");
}

TEST_F(Describe, OtherFilesAreRefusedInOneLine) {
    EXPECT_EQ("", refusal(convoy_alone("info " + dir_.path("none")), Exit::bad_input, {"no such file or folder"}));
    EXPECT_EQ("", refusal(convoy_alone("info " + dir_.path()), Exit::bad_input, {"neither a run folder", "data set"}));
    write_file(dir_.path("x.h5"), "no HDF5");
    EXPECT_EQ("", refusal(convoy_alone("info " + dir_.path("x.h5")), Exit::bad_input, {"x.h5"}));
    EXPECT_EQ("",
              refusal(convoy_alone("info " + data_ + "/train-00000-of-00002.h5"), Exit::bad_input, {"train-00000"}));
    EXPECT_EQ("", refusal(convoy_alone("info " + data_ + " --plans resnet18"), Exit::usage, {"--plans", data_}));
    EXPECT_EQ("", refusal(launch(2, "info " + dir_.path("none")), Exit::bad_input, {"no such file or folder"}));
}

}  // namespace
}  // namespace convoy::test
