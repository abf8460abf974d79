// Lines that a conversion of images prints. runs/convert_summary runs convert.
#include <gtest/gtest.h>

#include <cstdio>

#include "cli/convert_summary.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

class ConvertLines : public testing::Test {
protected:
    ConvertLines() {
        found_.given = {{"folder", 1201}};
        found_.own_test = true;
    }
    std::string printed() {
        const std::string path = dir_.path("out");
        std::FILE* to = std::fopen(path.c_str(), "w");
        {
            Terminal terminal(to, true);
            ImageOptions o;
            o.to = "data";
            ShardRecord train{.name = "a", .split = "train"}, test{.name = "b", .split = "test"};
            train.tally.images = 1200;
            train.tally.classes = {1200};
            test.tally.images = 1;
            test.tally.classes = {1};
            print_summary(terminal, o, found_, {"x"}, {train, test}, 0.5, 600);
        }
        std::fclose(to);
        return read_file(path);
    }
    bool has(const std::string& line) {
        const std::string text = "\n" + printed();
        return text.find("\n" + line + "\n") != std::string::npos;
    }

    TempDir dir_;
    ListSummary found_;
};

TEST_F(ConvertLines, AllOfTwentySourcesAreNamedAndTenOfMore) {
    found_.given.clear();
    for (int i = 0; i < 20; ++i) found_.given.push_back({"source" + std::to_string(i), 10 + (i * 7) % 20});
    EXPECT_TRUE(has("  from source19: 23 images")) << printed();
    EXPECT_EQ(printed().find("more"), std::string::npos);
    found_.given.push_back({"source20", 1});
    EXPECT_TRUE(has("  from source9: 13 images"));
    EXPECT_FALSE(has("  from source10: 20 images"));
    EXPECT_TRUE(has("  … and from 11 more; the fewest are 1 from source20, the most 29 from source17")) << printed();
}

// At most five are named.
TEST_F(ConvertLines, SkippedFilesAreNamedAndMoreAreHinted) {
    const auto skip = [&](int files) {
        found_.skipped = {};
        for (int i = 0; i < files; ++i) found_.skipped[size_t(Skipped::hidden)].add("." + std::to_string(i));
    };
    skip(1);
    EXPECT_TRUE(has("  passed over: 1 hidden or system file or folder (.0)")) << printed();
    skip(5);
    EXPECT_TRUE(has("  passed over: 5 hidden or system files or folders (.0, .1, .2, .3, .4)")) << printed();
    skip(1006);
    EXPECT_TRUE(has("  passed over: 1,006 hidden or system files or folders (.0, .1, .2, .3, .4, …)")) << printed();
}

TEST_F(ConvertLines, ASummaryHasWhatBothSplitsPassedOver) {
    ImageList train, test;
    train.given = {{"a", 3}};
    test.given = {{"b", 2}};
    train.skip(Skipped::other, "x");
    test.skip(Skipped::other, "y");
    test.skip(Skipped::dead_link, "z");
    const ListSummary s = summary_of(train, test);
    EXPECT_EQ(s.skipped[size_t(Skipped::other)].count, 2);
    EXPECT_EQ(s.skipped[size_t(Skipped::other)].examples, (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(s.skipped[size_t(Skipped::dead_link)].count, 1);
    ASSERT_EQ(s.given.size(), 2u);
    EXPECT_EQ(s.given[1].path, "b");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"z", "--strict"}, [&] { check_nothing_is_lost(s); }));
    EXPECT_NO_THROW(check_nothing_is_lost(summary_of(train, {})));
}

TEST_F(ConvertLines, CountsAndRatesAreThoseOfTheRun) {
    EXPECT_TRUE(printed().starts_with("data: 1,200 train images, 1 test image, ")) << printed();
    EXPECT_NE(printed().find(", 1 class, 2 shards, 0.5 s, 1200 images/s\n"), std::string::npos) << printed();
    found_.in_both.add("x/1.jpg", 3);
    EXPECT_TRUE(has("  in both splits: 3 images (x/1.jpg)")) << printed();
    found_.unreadable.leave_out("x/2.jpg", BadImage(ImageFault::empty, "is empty"));
    EXPECT_TRUE(has("  left out: 1 image (1 empty), as")) << printed();
    EXPECT_TRUE(has("    x/2.jpg: is empty"));
}

}  // namespace
}  // namespace convoy::test
