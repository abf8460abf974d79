// Sums over the shards of a conversion, and how rows are divided among shards.
#include "data/shard_conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

ImageTally tally_of(const std::vector<int64_t>& classes, int faults) {
    ImageTally tally;
    tally.classes = classes;
    for (const int64_t images : classes) tally.images += images;
    tally.noted[size_t(ImageNote::png)] = tally.images;
    for (int i = 0; i < faults; ++i)
        tally.leave_out("x" + std::to_string(i), BadImage(i % 2 ? ImageFault::empty : ImageFault::damaged, "is wrong"));
    return tally;
}

// A shard's tally ends with the last class of which it has an image.
TEST(ShardConversion, TalliesAreAddedWhicheverHasMoreClasses) {
    for (const bool longer_first : {true, false}) {
        const ImageTally longer = tally_of({1, 0, 2, 4}, 3), shorter = tally_of({5, 6}, 4);
        ImageTally all;
        all.add(longer_first ? longer : shorter);
        all.add(longer_first ? shorter : longer);
        EXPECT_EQ(all.classes, (std::vector<int64_t>{6, 6, 2, 4})) << longer_first;
        EXPECT_EQ(all.images, 18);
        EXPECT_EQ(all.noted[size_t(ImageNote::png)], 18);
        EXPECT_EQ(all.noted[size_t(ImageNote::odd_header)], 0);
        EXPECT_EQ(all.faults[size_t(ImageFault::damaged)], 2 + 2);
        EXPECT_EQ(all.faults[size_t(ImageFault::empty)], 1 + 2);
        EXPECT_EQ(all.left_out(), 7);
        ASSERT_EQ(all.examples.size(), ImageTally::most_examples);
        EXPECT_EQ(all.examples[longer_first ? 3 : 4], "x0: is wrong") << "the first of the second shard";
    }
}

// Covers every value of every channel, including the last value of the last channel.
TEST(ShardConversion, CountsOfPixelsAreAdded) {
    std::vector<uint8_t> low, high;
    for (int value = 0; value < 256; ++value)
        for (int channel = 0; channel < 3; ++channel) (value < 100 ? low : high).push_back(uint8_t(value));
    PixelCounts whole(3), of_low(3), of_high(3);
    for (const std::vector<uint8_t>* part : {&low, &high}) whole.add(part->data(), part->size());
    of_low.add(low.data(), low.size());
    of_high.add(high.data(), high.size());
    of_low.add(of_high);
    EXPECT_EQ(of_low.values(), whole.values());
    EXPECT_EQ(whole.values(), std::vector<int64_t>(3 * 256, 1));
    EXPECT_NEAR(of_low.statistics().mean[2], 0.5, 1e-12);
    // variance of 0 to 255: (256^2 - 1) / 12
    EXPECT_NEAR(of_low.statistics().stddev[2], std::sqrt((65536 - 1) / 12.0) / 255, 1e-12);
}

ImageList listed(int images) {
    ImageList list;
    list.sources = {"source"};
    for (int i = 0; i < images; ++i) list.images.push_back({.label = "x", .name = std::to_string(i)});
    return list;
}

// Test shards have about as many rows as training shards, and never more.
TEST(ShardConversion, TestShardsAreNoLargerThanTrainingShards) {
    for (const auto& [train, shards, test, wanted] :
         {std::tuple{11, 3, 4, 1}, {11, 3, 5, 2}, {12, 3, 4, 1}, {12, 3, 9, 3}, {5, 5, 2, 2}, {10, 1, 30, 3}}) {
        const ShardAssignment plan = assign_shards(listed(train), listed(test), {.train_shards = shards}, {});
        size_t most_train = 0, most_test = 0;
        int test_shards = 0, rows = 0;
        for (const AssignedShard& shard : plan.shards) {
            size_t& most = shard.split == "train" ? most_train : most_test;
            most = std::max(most, shard.images.size());
            rows += int(shard.images.size());
            test_shards += shard.split == "test";
        }
        EXPECT_EQ(rows, train + test);
        EXPECT_EQ(test_shards, wanted) << train << " in " << shards << ", " << test;
        EXPECT_LE(most_test, most_train);
    }
}

/// Returns a list with `sizes`[c] images of class c, in the order of classes.
ImageList of_classes(const std::vector<int>& sizes) {
    ImageList list = listed(0);
    for (size_t c = 0; c < sizes.size(); ++c)
        for (int i = 0; i < sizes[c]; ++i)
            list.images.push_back({.label = "x", .name = std::to_string(i), .class_index = int32_t(c)});
    return list;
}

// Each class gives its share, rounded up or down, and all together what the share of all is.
TEST(ShardConversion, TestImagesAreDrawnFromEachClass) {
    const std::vector<int> all_sizes[] = {{150, 150, 150, 120},
                                          {36, 7, 300},
                                          {1, 40, 1},
                                          {10, 10, 10, 10, 10, 10, 10, 10, 10, 10},
                                          {1, 1, 1},
                                          {2},
                                          {3, 1}};
    for (const std::vector<int>& sizes : all_sizes)
        for (const double share : {0.05, 0.2, 0.5})
            for (const uint64_t seed : {0, 1, 2}) {
                const ShardAssignment plan =
                    assign_shards(of_classes(sizes), {}, {.seed = seed, .test_share = share}, {});
                std::vector<int> test(sizes.size()), train(sizes.size());
                for (const AssignedShard& shard : plan.shards)
                    for (const ListedImage& image : shard.images)
                        ++(shard.split == "test" ? test : train)[image.class_index];
                int images = 0, drawn = 0, of_several = 0;
                for (size_t c = 0; c < sizes.size(); ++c) {
                    EXPECT_EQ(test[c] + train[c], sizes[c]);
                    images += sizes[c];
                    drawn += test[c];
                    of_several += sizes[c] > 1 ? sizes[c] : 0;
                }
                EXPECT_EQ(drawn, std::clamp(int(std::lround(images * share)), 1, std::max(of_several, 1)));
                for (size_t c = 0; c < sizes.size() && of_several > 0; ++c) {
                    const double wanted = sizes[c] > 1 ? double(drawn) * sizes[c] / of_several : 0;
                    EXPECT_LT(std::abs(test[c] - wanted), 1) << "class " << c << " of " << sizes[c];
                }
            }
}

TEST(ShardConversion, SeedsDrawOtherTestImages) {
    const auto test_names = [](uint64_t seed) {
        std::vector<std::string> names;
        for (const AssignedShard& shard :
             assign_shards(of_classes({100, 100}), {}, {.seed = seed, .test_share = 0.1}, {}).shards)
            for (const ListedImage& image : shard.images)
                if (shard.split == "test") names.push_back(std::to_string(image.class_index) + "/" + image.name);
        return names;
    };
    EXPECT_EQ(test_names(3), test_names(3));
    EXPECT_NE(test_names(3), test_names(4));
}

}  // namespace
}  // namespace convoy::test
