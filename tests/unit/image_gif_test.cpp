// GIF files as pixels, compared with what Pillow reads from the same files.
#include "tests/unit/decoded_files.h"

namespace convoy::test {
namespace {

class ImageGif : public DecodedFiles {
protected:
    static void SetUpTestSuite() { make("picture_files.py gif"); }
    /// Returns the offset of the first picture's description.
    static size_t picture_in(const std::string& gif) { return gif.find(',', 13 + (3u << ((gif[10] & 7) + 1))); }
};

TEST_F(ImageGif, IsWhatPillowReads) { expect_pixels_of_pillow(14); }

TEST_F(ImageGif, SaysWhatWasSpecial) {
    expect_notes({{"palette", {ImageNote::gif}},
                  {"no-table", {ImageNote::gif, ImageNote::grey}},
                  {"transparent", {ImageNote::gif, ImageNote::alpha}},
                  {"animated", {ImageNote::gif, ImageNote::several}}});
}

// Also in later frames, and before the trailer, which is the last byte.
TEST_F(ImageGif, ThatIsCutOffAnywhereIsRefused) {
    expect_refused_wherever_cut({"palette", "interlaced", "animated", "local-table"});
    const std::string& whole = files_.at("animated");
    for (size_t length = 6; length < whole.size(); ++length)
        ASSERT_EQ(int(ImageFault::truncated), fault_of(whole.substr(0, length))) << length;
}

TEST_F(ImageGif, WithFlippedBitsIsReadOrRefused) { EXPECT_GT(refused_with_flipped_bits(300), 50); }

TEST_F(ImageGif, ClaimsAreCheckedBeforeAllocation) {
    const std::string& whole = files_.at("palette");
    const auto claims = [&](const std::string& text, const std::string& wanted) {
        return text.find("claims " + wanted) != std::string::npos ? "" : text;
    };
    EXPECT_EQ("", claims(problem_of(with(whole, 6, "\xff\xff\xff\xff")), "65535x65535 pixels, more than 16384 a side"));
    EXPECT_EQ(
        "", claims(problem_of(with(whole, 6, little(16000, 2) + little(6000, 2))), "6000x16000 pixels, more than its"))
        << "a screen";
    const size_t at = picture_in(whole);
    EXPECT_EQ("", claims(problem_of(with(whole, at + 5, "\xff\xff\xff\xff")), "65535x65535")) << "a picture";
    EXPECT_EQ("", claims(problem_of(with(whole, at + 1, "\xff\xff\xff\xff")), "65582x65596")) << "its place";
    EXPECT_EQ("has no pixels", problem_of(with(whole, at + 5, std::string(2, '\0'))));
}

TEST_F(ImageGif, DamageIsRefused) {
    const std::string& whole = files_.at("palette");
    const size_t at = picture_in(whole);
    EXPECT_NE("", problem_of(with(whole, at + 5, little(62, 2)))) << "more pixels than codes";
    for (const int bits : {0, 9, 12, 255})
        EXPECT_NE("", problem_of(with(whole, at + 10, little(uint64_t(bits), 1)))) << bits;
    EXPECT_NE("", problem_of(with(whole, at, "x"))) << "an unknown block before the picture";
    EXPECT_NE("", problem_of(whole.substr(0, at) + ";")) << "no picture";
    EXPECT_EQ("", problem_of(with(whole, whole.size() - 1, "x"))) << "an unknown byte after the picture";
    EXPECT_EQ("", problem_of(whole + "what stands after the end"));
    EXPECT_EQ("", problem_of(with(whole, 11, "\xff"))) << "a background that the table lacks";
}

// A code may stand for thousands of pixels, and only the last codes of a picture are missing.
TEST_F(ImageGif, OneColourTakesFewBytes) {
    const int side = 300;
    std::string gif = "GIF89a" + little(side, 2) + little(side, 2) + std::string("\x80\0\0", 3) + "abcdef," +
                      little(0, 4) + little(side, 2) + little(side, 2) + std::string(1, '\0') + "\2";
    std::string codes;
    uint64_t bits = 0;
    int have = 0, size = 3, next = 6, left = side * side, length = 1;
    const auto put = [&](int code) {
        bits |= uint64_t(code) << have;
        for (have += size; have >= 8; have -= 8, bits >>= 8) codes += char(bits);
    };
    put(4);  // clear
    put(0);
    // Each code is the one that the decoder is about to define: one pixel more than the last one.
    for (left -= 1; left > 0; left -= length) {
        ++length;
        if (next == (1 << size) && size < 12) ++size;
        put(length <= left ? next++ : 5);
    }
    gif += little(codes.size() & 255, 1) + codes;
    EXPECT_NE("", problem_of(gif + std::string("\0;", 2))) << "it ends before its pixels";
    EXPECT_LT(gif.size(), 700u);
}

}  // namespace
}  // namespace convoy::test
