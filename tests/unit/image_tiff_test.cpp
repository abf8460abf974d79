// TIFF files as pixels, compared with what Pillow reads from the same files.
// tests/support/tiff_writer.py writes kinds that Pillow does not write.
#include <algorithm>

#include "tests/unit/decoded_files.h"

namespace convoy::test {
namespace {

struct TiffTag {
    int tag, type;
    uint64_t count, value;
};

class ImageTiff : public DecodedFiles {
protected:
    static void SetUpTestSuite() { make("picture_files.py tiff"); }
    /// Returns a little-endian TIFF with `data` at offset 8, then a directory of these tags.
    static std::string tiff(const std::vector<TiffTag>& tags, const std::string& data, uint64_t next = 0) {
        std::string file = std::string("II*\0", 4) + little(8 + data.size(), 4) + data + little(tags.size(), 2);
        for (const TiffTag& t : tags)
            file += little(uint64_t(t.tag), 2) + little(uint64_t(t.type), 2) + little(t.count, 4) + little(t.value, 4);
        return file + little(next, 4);
    }
    /// Returns the tags of a grey picture in one strip at offset 8.
    static std::vector<TiffTag> grey(uint64_t width, uint64_t height, uint64_t bytes, uint64_t compression = 1) {
        return {{256, 4, 1, width}, {257, 4, 1, height}, {258, 3, 1, 8},      {259, 3, 1, compression}, {262, 3, 1, 1},
                {273, 4, 1, 8},     {277, 3, 1, 1},      {278, 4, 1, height}, {279, 4, 1, bytes}};
    }
    /// Returns a grey picture of 4x4 pixels with another value for a tag.
    static std::string changed(int tag, uint64_t value) {
        std::vector<TiffTag> tags = grey(4, 4, 16);
        const auto place = std::lower_bound(tags.begin(), tags.end(), tag,
                                            [](const TiffTag& t, int wanted) { return t.tag < wanted; });
        if (place != tags.end() && place->tag == tag)
            place->value = value;
        else
            tags.insert(place, {tag, 3, 1, value});
        return tiff(tags, "0123456789abcdef");
    }
};

TEST_F(ImageTiff, IsWhatPillowReads) { expect_pixels_of_pillow(55); }

TEST_F(ImageTiff, SaysWhatWasSpecial) {
    expect_notes({{"colour-raw", {ImageNote::tiff}},
                  {"grey-tiff_lzw", {ImageNote::tiff, ImageNote::grey}},
                  {"bits-group4", {ImageNote::tiff, ImageNote::grey}},
                  {"palette", {ImageNote::tiff}},
                  {"cmyk", {ImageNote::tiff, ImageNote::cmyk}},
                  {"alpha", {ImageNote::tiff, ImageNote::alpha}},
                  {"multiplied", {ImageNote::tiff, ImageNote::alpha}},
                  {"pages", {ImageNote::tiff, ImageNote::several}},
                  {"turned8", {ImageNote::tiff, ImageNote::turned}},
                  {"16-bits-grey-big", {ImageNote::tiff, ImageNote::grey, ImageNote::sixteen_bits}}});
}

TEST_F(ImageTiff, ThatIsCutOffAnywhereIsRefused) {
    expect_refused_wherever_cut({"colour-raw", "tiled", "planes-strips", "bits-group4", "turned6"});
}

TEST_F(ImageTiff, WithFlippedBitsIsReadOrRefused) { EXPECT_GT(refused_with_flipped_bits(60), 50); }

TEST_F(ImageTiff, OfAKindThatIsNotReadIsNamed) {
    ASSERT_EQ("", problem_of(changed(259, 1)));
    std::vector<TiffTag> ycbcr = grey(4, 4, 48);
    ycbcr[2] = {258, 3, 3, 8};
    ycbcr[4].value = 6;
    ycbcr[5].value = 14;
    ycbcr[6].value = 3;
    const std::vector<std::pair<std::string, std::string>> kinds = {
        {changed(259, 6), "of compression 6"},
        {changed(259, 50000), "of compression 50000"},
        {changed(259, 34676), "of compression 34676"},
        {changed(262, 8), "of photometric interpretation 8"},
        {changed(262, 32803), "of photometric interpretation 32803"},
        {tiff(ycbcr, std::string("\10\0\10\0\10\0", 6) + std::string(58, 'x')), "of YCbCr without JPEG"},
        {changed(258, 12), "of 12 bits per channel"},
        {changed(258, 32), "of 32 bits per channel"},
        {changed(339, 3), "of signed or floating-point samples"},
        {changed(277, 100), "of 100 channels"}};
    for (const auto& [file, what] : kinds) {
        EXPECT_EQ(problem_of(file), "is a TIFF " + what + ", which is not read");
        EXPECT_EQ(fault_of(file), int(ImageFault::other_format));
    }
    EXPECT_EQ(problem_of(changed(262, 2)), "TIFF: has fewer channels than its colours need");
    EXPECT_TRUE(decoded(changed(262, 3)).has(ImageNote::grey)) << "without a colour table, as libtiff has it";
}

TEST_F(ImageTiff, ClaimsAreCheckedBeforeAllocation) {
    const std::string data = "0123456789abcdef";
    const auto claimed = [&](uint64_t width, uint64_t height, uint64_t compression) {
        return problem_of(tiff(grey(width, height, 16, compression), data));
    };
    EXPECT_NE(claimed(65535, 65535, 1).find("claims 65535x65535 pixels, more than 16384 a side"), std::string::npos);
    EXPECT_NE("", claimed(UINT32_MAX, UINT32_MAX, 5));
    for (const uint64_t compression : {1, 5, 8, 32773})
        EXPECT_NE(claimed(16000, 6000, compression).find("claims 6000x16000 pixels, more than its"), std::string::npos);
    EXPECT_NE("", claimed(0, 4, 1));
    EXPECT_NE(problem_of(tiff({{256, 4, 1, 4},
                               {257, 4, 1, 4},
                               {258, 3, 1, 8},
                               {259, 3, 1, 5},
                               {262, 3, 1, 1},
                               {277, 3, 1, 1},
                               {322, 4, 1, 16000},
                               {323, 4, 1, 16000},
                               {324, 4, 1, 8},
                               {325, 4, 1, 16}},
                              data))
                  .find("more than its"),
              std::string::npos)
        << "a tile larger than its picture";
    EXPECT_EQ(problem_of(tiff({{256, 4, 1, 16000},
                               {257, 4, 1, 16},
                               {258, 3, 1, 1},
                               {259, 3, 1, 4},
                               {262, 3, 1, 1},
                               {277, 3, 1, 1},
                               {322, 4, 1, 32000},
                               {323, 4, 1, 48000},
                               {324, 4, 1, 8},
                               {325, 4, 1, 16384}},
                              std::string(16384, 'x'))),
              "is a TIFF in tiles far larger than the image, which is not read");
    EXPECT_EQ(problem_of(changed(279, 1000)), "") << "libtiff knows the bytes of plain pixels";
    EXPECT_EQ(problem_of(changed(273, 0x7fffffff)), "TIFF: ends before its pixels");
}

// libtiff would copy these bytes 900 times, which takes 7 GiB.
TEST_F(ImageTiff, ManyTagsOrTagsThatClaimTheSameBytesAreRefused) {
    std::vector<TiffTag> many = grey(4, 4, 16), greedy = many;
    for (int tag = 1000; tag < 61'000; ++tag) many.push_back({tag, 1, 1, 0});
    EXPECT_NE(problem_of(tiff(many, "0123456789abcdef")).find("TIFF: "), std::string::npos);
    for (int tag = 1000; tag < 1900; ++tag) greedy.push_back({tag, 1, 8 << 20, 8});
    EXPECT_EQ(problem_of(tiff(greedy, std::string(8 << 20, 'x'))), "TIFF: its tags claim more bytes than it has");
    for (int tag = 1000; tag < 1900; ++tag) greedy[tag - 1000 + 9].count = UINT32_MAX;
    EXPECT_EQ("", problem_of(tiff(greedy, std::string(8 << 20, 'x')))) << "libtiff passes over such values";
}

TEST_F(ImageTiff, StripsThatClaimTheSameBytesAreRefused) {
    const uint64_t strips = 1000, bytes = 1 << 20;
    std::string places, sizes;
    for (uint64_t i = 0; i < strips; ++i) {
        places += little(8 + 8 * strips, 4);
        sizes += little(bytes, 4);
    }
    std::vector<TiffTag> tags = grey(100, strips, 0, 5);
    tags[5] = {273, 4, strips, 8};
    tags[7].value = 1;
    tags[8] = {279, 4, strips, 8 + 4 * strips};
    EXPECT_EQ(problem_of(tiff(tags, places + sizes + std::string(bytes, 'x'))), "TIFF: its parts claim the same bytes");
}

TEST_F(ImageTiff, LaterDirectoriesAreNotFollowed) {
    const std::string data = "0123456789abcdef", whole = tiff(grey(4, 4, 16), data, 8 + 16);  // leads to itself
    EXPECT_EQ("", problem_of(whole));
    EXPECT_EQ("", problem_of(tiff(grey(4, 4, 16), data, 0x7fffffff)));
    EXPECT_TRUE(decoded(whole).has(ImageNote::several));
    for (const uint64_t first : {0, 4, 7, 0x7fffffff})
        EXPECT_NE("", problem_of(with(whole, 4, little(first, 4)))) << first;
}

// Fax codes that end early leave rows white without an error of libtiff, but with a warning.
TEST_F(ImageTiff, WarningsAboutPixelsAreProblems) {
    for (const char* name : {"bits-group3", "bits-group4", "colour-jpeg"}) {
        const std::string& whole = files_.at(name);
        int refused = 0;
        for (size_t at = 8; at + 400 < whole.size(); at += 40) {
            const std::string problem = problem_of(with(whole, at, std::string(12, '\0')));
            refused += problem.starts_with("TIFF: ");
        }
        EXPECT_GT(refused, 0) << name;
    }
}

}  // namespace
}  // namespace convoy::test
