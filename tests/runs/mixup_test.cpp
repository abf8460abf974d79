// Trainings on mixed images: the same on any number of ranks, wherever the images are, and after an
// interruption. Evaluations are not mixed.
#include "tests/runs/resume.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

class Mixup : public ResumeTest {
protected:
    static Options mixed(Options changes = {}) {
        changes.insert({{"mixup", "0.4"}, {"cutmix", "1"}});
        return changes;
    }
    std::vector<double> losses(const std::string& run) const { return column(dir_.path(run), "train/loss"); }
};

TEST_F(Mixup, IsTheSameOnAnyNumberOfRanks) {
    const Options linear = {{"model", "mnist-linear"}, {"epochs", "2"}};
    for (const int ranks : {1, 2, 3})
        ASSERT_EQ("", failure(launch(ranks, train(std::to_string(ranks), mixed(linear)))));
    ASSERT_EQ("", failure(launch(1, train("plain", linear))));
    ASSERT_EQ(losses("1").size(), 200u);
    // all-reduces round differently, and 200 steps propagate that
    for (const char* ranks : {"2", "3"}) EXPECT_LT(deviation(losses("1"), losses(ranks)), 1e-5) << ranks << " ranks";
    EXPECT_GT(deviation(losses("1"), losses("plain")), 0.01);
}

TEST_F(Mixup, APartitionTrainsAsAReplicaDoes) {
    for (const int ranks : {1, 2, 3}) {
        for (const char* placement : {"replicate", "partition"})
            ASSERT_EQ("", failure(launch(ranks, train(placement, mixed({{"data-placement", placement},
                                                                        {"max-steps", "110"},
                                                                        {"overwrite", "true"}})))));
        expect_same("replicate", "partition");
    }
}

// Images have many sizes; only the lines that a crop shows are sent, also of partners.
TEST_F(Mixup, ImagesOfManySizesAreMixedAlike) {
    make_ragged(dir_.path("ragged"), ImageLayout::raw, 80);
    const Options cropped = {
        {"data", dir_.path("ragged")},   {"model", "resnet18"}, {"image-size", "16:0,24:1"}, {"epochs", "2"},
        {"random-resized-crop", "true"}, {"crop-pad", "0"},     {"sync-bn", "true"},         {"lr", "0.001"}};
    for (const char* placement : {"replicate", "partition"}) {
        Options options = mixed({{"data-placement", placement}});
        options.insert(cropped.begin(), cropped.end());
        ASSERT_EQ("", failure(launch(2, train(placement, options))));
    }
    expect_same("replicate", "partition");
}

TEST_F(Mixup, GoesOnBitForBitWithinAnEpoch) {
    const Options first = {{"max-steps", "130"}, {"checkpoint-every", "130"}};
    ASSERT_EQ("", failure(launch(2, train("whole", mixed({{"max-steps", "160"}})))));
    ASSERT_EQ("", failure(launch(2, train("part", mixed(first)))));
    ASSERT_EQ("", failure(launch(2, train("part", mixed(resumed({{"max-steps", "160"}}))))));
    EXPECT_EQ(losses("whole").size(), 160u);
    EXPECT_EQ(losses("part"), losses("whole"));
    EXPECT_EQ(tensors(dir_.path("part") + "/model.h5"), tensors(dir_.path("whole") + "/model.h5"));
}

TEST_F(Mixup, EvaluationsAreNotMixed) {
    const Options fixed = {{"lr", "0"}, {"max-steps", "20"}, {"tta", "mirror"}};
    ASSERT_EQ("", failure(launch(2, train("plain", fixed))));
    ASSERT_EQ("", failure(launch(2, train("mixed", mixed(fixed)))));
    EXPECT_EQ(column(dir_.path("mixed"), "eval/loss"), column(dir_.path("plain"), "eval/loss"));
    EXPECT_EQ(column(dir_.path("mixed"), "eval/accuracy"), column(dir_.path("plain"), "eval/accuracy"));
    EXPECT_NE(losses("mixed"), losses("plain"));
}

TEST_F(Mixup, ABatchOfOneIsRefused) {
    for (const char* option : {"mixup", "cutmix"})
        EXPECT_EQ("", refusal(launch(1, train("run", {{"batch-size", "1"}, {option, "0.5"}})), Exit::usage,
                              {std::string("--") + option, "a batch of one", "raise the batch"}));
}

}  // namespace
}  // namespace convoy::test
