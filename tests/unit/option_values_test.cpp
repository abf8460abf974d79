// Texts of options at the limits of their allowed values.
#include "cli/option_values.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/command_line.h"
#include "ops/augment.h"
#include "plan/schedule.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Returns the struct that `parse` sets fields of.
template <class To> To parsed(void (*parse)(const std::string&, const std::string&, To&), const std::string& text) {
    To to;
    parse("option", text, to);
    return to;
}

template <class Parse> void expect_refused(const Parse& parse, const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--option", text}, [&] { parse("option", text); })) << text;
}
template <class To>
void expect_refused(void (*parse)(const std::string&, const std::string&, To&), const std::vector<std::string>& texts) {
    expect_refused([&](const std::string&, const std::string& text) { parsed(parse, text); }, texts);
}

TEST(OptionValues, IntervalsRise) {
    EXPECT_EQ(parsed(parse_crop_scale, "0.25,0.25").scale_low, 0.25f);
    EXPECT_EQ(parsed(parse_crop_scale, "0.0001,1").scale_high, 1);
    expect_refused(parse_crop_scale, {"0.5,0.25", "0.00009,1", "0.5,1.1", "0.5", "0.1,0.2,0.3", "a,b"});
    EXPECT_EQ(parsed(parse_crop_ratio, "0.01,100").ratio_high, 100);
    expect_refused(parse_crop_ratio, {"2,1", "0.009,1", "1,101"});
}

TEST(OptionValues, ImageSizesBeginAtRisingEpochs) {
    const ImageSize size = parse_image_side("option", "160:0,192:10,224:20");
    EXPECT_EQ(size.side, 224);
    EXPECT_EQ(size.earlier, (decltype(size.earlier){{160, 10}, {192, 20}}));
    EXPECT_EQ(parse_image_side("option", "4096").side, 4096);
    EXPECT_EQ(parse_image_side("option", "64:0").side, 64);
    expect_refused(parse_image_side, {"64:0,96:0", "64:0,96:2,128:2", "64:0,96:2,128:1", "64:1", "64:0,96", "64,96:1",
                                      "0", "4097", "64:0,", "64:0,4097:1", "64:0,0:1", "64.5", "-64"});
}

TEST(OptionValues, JitterHasUpToFourNumbers) {
    const Augment all = parsed(parse_jitter, "10,10,10,0.5");
    EXPECT_EQ(all.hue, 0.5f);
    EXPECT_EQ(all.saturation, 10);
    EXPECT_EQ(parsed(parse_jitter, "0.4,0.3").contrast, 0.3f);
    EXPECT_EQ(parsed(parse_jitter, "0.4,0.3").hue, 0);
    expect_refused(parse_jitter, {"10.1", "0,10.1", "0,0,10.1", "0,0,0,0.51", "-1", "0,-1", "0,0,0,0,0", "0.4,"});
}

TEST(OptionValues, TimesHaveTheirEnds) {
    EXPECT_EQ(parse_watchdog("option", "1s"), 1);
    EXPECT_EQ(parse_watchdog("option", "8760h"), 8760 * 3600);
    EXPECT_EQ(parse_watchdog("option", "none"), 0);
    expect_refused(parse_watchdog, {"0.9s", "8761h", "x"});
    EXPECT_EQ(parse_publish_every("option", "24h"), 86400);
    expect_refused(parse_publish_every, {"24h1s", "0s"});
    EXPECT_EQ(parse_time_limit("option", ""), 0);
    expect_refused(parse_time_limit, {"0s", "8761h", "90"});
    EXPECT_EQ(parse_tuning("option", "90"), 90);
    EXPECT_EQ(parse_tuning("option", "1m30s"), 90);
    EXPECT_EQ(parse_tuning("option", "quick"), 0);
    EXPECT_TRUE(std::isinf(parse_tuning("option", "full")));
    expect_refused(parse_tuning, {"-1", "nan", "inf", "31536001"});
}

TEST(OptionValues, RangesHaveTheirEnds) {
    namespace po = boost::program_options;
    po::options_description options;
    options.add_options()("option", po::value<int64_t>());
    const auto value = [&](const std::string& text) {
        return value_in_range(parse(options, {"--option", text}), "option", 3, 7);
    };
    EXPECT_EQ(value("3"), 3);
    EXPECT_EQ(value("7"), 7);
    for (const char* text : {"2", "8", "-3"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--option", text, "it takes 3 to 7"}, [&] { value(text); }));
}

TEST(OptionValues, PointsOfTheRateRise) {
    EXPECT_EQ(parsed(parse_rate_points, "0:0.2,2:1").points.size(), 2u);
    EXPECT_TRUE(parsed(parse_rate_points, "0%:0.2,100%:1").points_of_run);
    EXPECT_EQ(parsed(parse_rate_points, "0%:0.2,50%:1").points[1].first, 0.5);
    expect_refused(parse_rate_points, {"0:1,0:2", "2:1,1:2", "0:1,50%:2", "50%:1,60:2", ":1", "1:", "1", "%:1"});
    EXPECT_EQ(parse_mixing("option", "0"), 0);
    EXPECT_EQ(parse_mixing("option", "0.01"), 0.01);
    EXPECT_EQ(parse_mixing("option", "1"), 1);
    expect_refused(parse_mixing, {"0.009", "1.1", "-1", "0.5,0.5"});
    EXPECT_EQ(parse_devices("option", "0,1024"), (std::vector<int>{0, 1024}));
    expect_refused(parse_devices, {"-1", "0.5", "1025"});
}

}  // namespace
}  // namespace convoy::test
