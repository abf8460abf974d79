// From 20,000 image files to trained models: converted on any number of ranks, trained and
// evaluated wherever the images are. A class is the mean colour of its images.
#include <gtest/gtest.h>

#include <cmath>

#include "data/shard.h"
#include "tests/runs/resume.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

constexpr int steps = 24;
constexpr int classes = 27, distinct = 20, files_a_class = 760, files = classes * files_a_class;

/// Returns one of three levels for each channel.
std::array<int, 3> colour_of(int label) { return {60 + label / 9 * 70, 60 + label / 3 % 3 * 70, 60 + label % 3 * 70}; }

/// Returns an image of 20 to 83 pixels a side, with channels whose means differ by at most 30 from
/// the colour's.
RgbImage image_of(int label, int i) {
    const uint32_t seed = uint32_t(label * distinct + i);
    RgbImage image = pattern(20 + int(seed * 37 % 64), 20 + int(seed * 53 % 64), seed);
    for (size_t at = 0; at < image.pixels.size(); ++at)
        image.pixels[at] = uint8_t(colour_of(label)[at % 3] + (image.pixels[at] - 128) / 4);
    return image;
}

/// Returns the class of an image of any size.
int class_of(const uint8_t* pixels, size_t count) {
    std::array<double, 3> mean{};
    for (size_t at = 0; at < 3 * count; ++at) mean[at % 3] += pixels[at] / double(count);
    const auto level = [&](int channel) { return int(std::lround((mean[channel] - 60) / 70)); };
    return level(0) * 9 + level(1) * 3 + level(2);
}

class ImageFolderTraining : public ResumeTest {
protected:
    /// Makes the files, and converts them on two ranks.
    static void SetUpTestSuite() {
        set_ = std::make_unique<TempDir>();
        for (int c = 0; c < classes; ++c)
            for (int i = 0; i < files_a_class; ++i) {
                const auto path = [&](int file) { return set_->path(formatted("in/c%02d/%03d.jpg", c, file)); };
                if (i < distinct)
                    write_file(path(i), jpeg_of(image_of(c, i)));
                else
                    fs::create_hard_link(path(i % distinct), path(i));
            }
        ASSERT_EQ("", failure(convert(2, shards())));
    }
    static void TearDownTestSuite() { set_.reset(); }
    static Finished convert(int ranks, const std::string& to) {
        return launch(ranks,
                      "convert imagefolder --short-side 64 --val-share 0.1 --shards 64 --from " + set_->path("in") +
                          " --to " + to,
                      300);
    }
    static std::string shards() { return set_->path("shards"); }

    /// Returns a training of 1,152 images; a block of a stream has about two shards of 289.
    std::string train(const std::string& run, const std::string& placement, Options changes = {}) const {
        changes.insert({{"data", shards()},
                        {"model", "resnet18"},
                        {"stem", "imagenet"},
                        {"image-size", "64"},
                        {"random-resized-crop", "true"},
                        {"crop-pad", "0"},
                        {"batch-size", "48"},
                        {"max-steps", std::to_string(steps)},
                        {"lr", "0.02"},
                        {"eval-images", "480"},
                        {"sync-bn", "false"},
                        {"threads", "1"},
                        {"checkpoint-every", "none"},
                        {"data-placement", placement}});
        if (placement == "stream") changes.insert({"stream-block-mib", "16"});
        return ResumeTest::train(run, changes);
    }
    std::string evaluate(const std::string& run, const std::string& placement) const {
        return "evaluate --threads 1 --model-file " + dir_.path(run) + "/model.h5 --data " + shards() +
               " --data-placement " + placement;
    }
    /// Counts of an evaluation: images, those whose class is the best, and those whose class is
    /// among the five best.
    using Counts = std::array<long long, 3>;
    static Counts counts_of(const std::string& out) {
        const Score score = score_of(out);
        double percent = -1;
        const size_t at = out.rfind("top-5 ");
        if (at != std::string::npos) std::sscanf(out.c_str() + at, "top-5 %lf %%", &percent);
        return {score.images, score.correct, std::llround(percent / 100 * double(score.images))};  // has two decimals
    }
    std::vector<double> losses(const std::string& run) const { return column(dir_.path(run), "train/loss"); }

    static inline std::unique_ptr<TempDir> set_;
};

TEST_F(ImageFolderTraining, FilesAreConvertedAlikeOnAnyRanks) {
    const auto by_two = files_in(shards());
    EXPECT_TRUE(by_two.contains("train-00063-of-00064.h5"));
    for (const int ranks : {1, 4}) {
        const std::string to = dir_.path(std::to_string(ranks));
        ASSERT_EQ("", failure(convert(ranks, to)));
        EXPECT_TRUE(files_in(to) == by_two) << ranks << " ranks wrote other bytes";
    }
}

// The test does not use sizes and labels from the conversion: an image's colour gives its class.
TEST_F(ImageFolderTraining, EveryLabelIsOfItsImage) {
    std::map<int, int> counts;
    for (const char* split : {"train", "test"}) {
        const SplitReader reader(shards(), split);
        ASSERT_TRUE(reader.info().ragged);
        std::vector<uint8_t> pixels(reader.info().image_bytes());
        std::vector<int32_t> labels(size_t(reader.info().images));
        reader.read(0, reader.info().images, pixels.data(), labels.data());
        const std::vector<ImagePlace> places = reader.places();
        for (size_t i = 0; i < places.size(); ++i) {
            ASSERT_EQ(labels[i],
                      class_of(&pixels[places[i].offset], size_t(places[i].height) * size_t(places[i].width)));
            ASSERT_EQ(std::min(places[i].height, places[i].width), 64);
            ++counts[labels[i]];
        }
    }
    EXPECT_EQ(counts.size(), size_t(classes));
    for (const auto& [label, count] : counts) EXPECT_EQ(count, files_a_class) << label;
}

TEST_F(ImageFolderTraining, APlacementChangesNeitherTrainingNorEvaluation) {
    for (const char* placement : {"replicate", "partition"})
        ASSERT_EQ("", failure(launch(2, train(placement, placement), 300)));
    EXPECT_EQ(losses("replicate").size(), size_t(steps));
    expect_same("replicate", "partition");
    ASSERT_GT(SplitReader(shards(), "test").info().image_bytes(), size_t(32) << 20) << "more than a block of a stream";
    std::vector<Counts> counts;
    for (const char* placement : {"replicate", "partition", "stream"}) {
        const Finished f = launch(2, evaluate("replicate", placement), 300);
        ASSERT_EQ("", failure(f));
        counts.push_back(counts_of(f.out));
        EXPECT_EQ(counts.back(), counts.front()) << placement;
    }
    const auto [all, correct, among_five] = counts.front();
    EXPECT_EQ(all, files / 10);
    EXPECT_GT(correct, 3 * all / classes) << "counts mean something if it has learnt more than to guess";
    EXPECT_GT(among_five, correct);
    EXPECT_LT(among_five, all);
}

// Half of a rank's samples are on the other host.
TEST_F(ImageFolderTraining, APartitionOverTwoHostsIsTheSame) {
    const Options few = {{"max-steps", "12"}};  // gradients cross the cable, too
    ASSERT_EQ("", failure(launch(2, train("replicate", "replicate", few), 300)));
    const auto on_two_hosts = [&](const std::string& command) {
        return run(with_limit("tests/support/two_hosts.sh '" + sibling("convoy") + " " + command + " >&2' 1 ''", 100));
    };
    const Finished trained = on_two_hosts(train("partition", "partition", few));
    if (trained.code == 77) GTEST_SKIP() << "no permission to make network namespaces";
    ASSERT_EQ(trained.out.substr(0, 2), "0 ") << trained.out << trained.err;
    expect_same("replicate", "partition");
    const Finished evaluated = on_two_hosts(evaluate("replicate", "partition")),
                   here = launch(2, evaluate("replicate", "replicate"), 300);
    ASSERT_EQ(evaluated.out.substr(0, 2), "0 ") << evaluated.out << evaluated.err;
    EXPECT_EQ(counts_of(evaluated.err), counts_of(here.out));
}

TEST_F(ImageFolderTraining, AnInterruptedStreamGoesOnBitForBit) {
    ASSERT_EQ("", failure(launch(2, train("whole", "stream"), 300)));
    const Finished stopped = interrupted(launch_command(2, train("part", "stream"), 300), "part", 13,
                                         signal_to_the_newest_rank("part", "USR1"));
    EXPECT_EQ(stopped.code, int(Exit::requeue)) << stopped.out << stopped.err;
    EXPECT_LT(losses("part").size(), size_t(steps));
    ASSERT_EQ("", failure(launch(2, train("part", "stream", resumed()), 300)));
    expect_same("whole", "part");
}

// Learning is negligible at this rate, so rounding does not grow: losses are those of the batches.
TEST_F(ImageFolderTraining, AStreamIsTheSameOnOneRankAndTwo) {
    for (const int ranks : {1, 2})
        ASSERT_EQ("", failure(launch(
                          ranks, train(std::to_string(ranks), "stream", {{"lr", "1e-9"}, {"sync-bn", "true"}}), 300)));
    EXPECT_EQ(losses("1").size(), size_t(steps));
    EXPECT_LT(deviation(losses("1"), losses("2")), 1e-3);
}

}  // namespace
}  // namespace convoy::test
