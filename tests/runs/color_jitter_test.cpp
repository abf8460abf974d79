// Trainings on images whose colours change: the same on any number of ranks, wherever the images
// are, and after an interruption. Evaluations use unchanged colours.
#include "tests/runs/resume.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

class ColorJitter : public ResumeTest {
protected:
    ColorJitter() {
        make_data(dir_.path("colours"), 39, 20, "12x12x3", 2);
        make_ragged(dir_.path("ragged"), ImageLayout::raw, 80);
    }

    /// Returns options for three steps per epoch.
    Options plain(Options changes = {}) const {
        changes.insert({{"data", dir_.path("colours")},
                        {"model", "resnet18"},
                        {"stem", "cifar"},
                        {"batch-size", "13"},
                        {"sync-bn", "true"},
                        {"lr", "0.001"}});
        return changes;
    }
    Options jittered(Options changes = {}) const {
        changes.insert({{"color-jitter", "0.4,0.4,0.4,0.1"}});
        return plain(changes);
    }
    std::vector<double> losses(const std::string& run) const { return column(dir_.path(run), "train/loss"); }

    static constexpr const char* refused_without_colours = "is for images of red, green and blue";
};

TEST_F(ColorJitter, IsTheSameOnAnyNumberOfRanks) {
    const Options fixed = {{"lr", "0"}, {"max-steps", "4"}, {"no-eval", "true"}, {"mixup", "0.2"}};
    for (const int ranks : {1, 2, 3})
        ASSERT_EQ("", failure(launch(ranks, train(std::to_string(ranks), jittered(fixed)))));
    ASSERT_EQ("", failure(launch(1, train("plain", plain(fixed)))));
    ASSERT_EQ(losses("1").size(), 4u);
    // all-reduces round differently; constant weights do not propagate that
    for (const char* ranks : {"2", "3"}) EXPECT_LT(deviation(losses("1"), losses(ranks)), 1e-5) << ranks << " ranks";
    EXPECT_GT(deviation(losses("1"), losses("plain")), 0.01);
}

// Images have many sizes; a rank has only the lines that a crop shows.
TEST_F(ColorJitter, APartitionTrainsAsAReplicaDoes) {
    const Options windows = {{"data", dir_.path("ragged")},
                             {"image-size", "16:0,24:1"},
                             {"batch-size", "30"},
                             {"random-resized-crop", "true"},
                             {"crop-pad", "0"}};
    for (const Options& changes : {Options{}, windows}) {
        for (const char* placement : {"replicate", "partition"}) {
            Options options = changes;
            options.insert({{"data-placement", placement}, {"overwrite", "true"}, {"max-steps", "4"}});
            ASSERT_EQ("", failure(launch(2, train(placement, jittered(options)))));
        }
        expect_same("replicate", "partition");
    }
}

TEST_F(ColorJitter, GoesOnBitForBitWithinAnEpoch) {
    ASSERT_EQ("", failure(launch(2, train("whole", jittered({{"max-steps", "8"}})))));
    ASSERT_EQ("", failure(launch(2, train("part", jittered({{"max-steps", "5"}, {"checkpoint-every", "5"}})))));
    ASSERT_EQ("", failure(launch(2, train("part", jittered(resumed({{"max-steps", "8"}}))))));
    EXPECT_EQ(losses("whole").size(), 8u);
    EXPECT_EQ(losses("part"), losses("whole"));
    EXPECT_EQ(tensors(dir_.path("part") + "/model.h5"), tensors(dir_.path("whole") + "/model.h5"));
}

// The same holds for every other option of augmentation.
TEST_F(ColorJitter, AResumedRunMayLeaveItOut) {
    ASSERT_EQ("", failure(launch(2, train("run", jittered({{"max-steps", "2"}})))));
    ASSERT_EQ("", failure(launch(2, train("run", plain(resumed({{"max-steps", "4"}}))))));
    ASSERT_EQ("", failure(launch(2, train("run", jittered(resumed({{"max-steps", "6"}}))))));
    EXPECT_EQ(losses("run").size(), 6u);
}

// Batch norm keeps statistics of its training images, so a plain training's evaluations differ. The
// command has no such option.
TEST_F(ColorJitter, EvaluationsSeeColoursAsTheyAre) {
    ASSERT_EQ("", failure(launch(2, train("run", jittered({{"max-steps", "3"}})))));
    const Finished f = convoy_alone("evaluate --device cpu --model-file " + dir_.path("run") + "/model.h5 --data " +
                                    dir_.path("colours"));
    ASSERT_EQ("", failure(f));
    const double loss = column(dir_.path("run"), "eval/loss").back();
    EXPECT_NE(f.out.find(formatted("loss %.4f", loss)), std::string::npos) << f.out << loss;
}

TEST_F(ColorJitter, ImagesWithoutColoursAreRefused) {
    const Options grey = {{"color-jitter", "0.4"}};
    EXPECT_EQ("", refusal(launch(2, train("run", grey)), Exit::usage,
                          {"--color-jitter", refused_without_colours, dir_.path("data"), "1 channel;"}));
    EXPECT_EQ("", refusal(convoy_alone("bench --device cpu --model mnist-conv --batch-size 4 --color-jitter 0.4"),
                          Exit::usage, {"--color-jitter", refused_without_colours, "made-up", "1 channel;"}));
    const Options off = {{"color-jitter", "0"}, {"max-steps", "2"}};
    EXPECT_EQ("", failure(launch(1, train("run", off))));
}

}  // namespace
}  // namespace convoy::test
