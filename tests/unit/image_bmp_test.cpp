// BMP files as pixels, compared with what Pillow reads from the same files.
#include "tests/unit/decoded_files.h"

namespace convoy::test {
namespace {

class ImageBmp : public DecodedFiles {
protected:
    static void SetUpTestSuite() { make("picture_files.py bmp"); }
};

TEST_F(ImageBmp, IsWhatPillowReads) { expect_pixels_of_pillow(23); }

TEST_F(ImageBmp, SaysWhatWasSpecial) {
    expect_notes({{"colour", {ImageNote::bmp}},
                  {"32-bits", {ImageNote::bmp}},
                  {"masks-alpha", {ImageNote::bmp, ImageNote::alpha}},
                  {"masks-v5", {ImageNote::bmp}}});
}

TEST_F(ImageBmp, ThatIsCutOffAnywhereIsRefused) {
    for (const char* name : {"colour", "4-bits", "masks", "os2"}) {
        const std::string& whole = files_.at(name);
        for (size_t length = 2; length < whole.size(); ++length)
            ASSERT_EQ(int(ImageFault::truncated), fault_of(whole.substr(0, length))) << name << " " << length;
    }
}

TEST_F(ImageBmp, WithFlippedBitsIsReadOrRefused) { EXPECT_GT(refused_with_flipped_bits(300), 50); }

TEST_F(ImageBmp, OfAKindThatIsNotReadIsNamed) {
    const std::string& colour = files_.at("colour");
    const auto with_compression = [&](char code) { return problem_of(with(colour, 30, {code})); };
    EXPECT_EQ(with_compression(1), "is a BMP with run-length codes, which is not read");
    EXPECT_EQ(with_compression(2), "is a BMP with run-length codes, which is not read");
    EXPECT_EQ(with_compression(4), "is a BMP that holds a JPEG or PNG, which is not read");
    EXPECT_EQ(with_compression(11), "is a BMP of compression 11, which is not read");
    EXPECT_EQ(problem_of(with(colour, 28, "\2")), "is a BMP of 2 bits, which is not read");
    EXPECT_EQ(problem_of(with(colour, 14, "\21")), "is a BMP with a header of 17 bytes, which is not read");
    const std::string &masks = files_.at("masks"),
                      unusual = "is a BMP with channels of unusual bits, which is not read";
    EXPECT_EQ(problem_of(with(masks, 54, little(0xf0f0, 4))), unusual) << "bits that do not follow each other";
    EXPECT_EQ(problem_of(with(masks, 54, little(0, 4))), unusual) << "one channel without bits";
    EXPECT_EQ(problem_of(with(files_.at("565"), 54, little(0xff0000, 4))), unusual) << "bits beyond a pixel's";
    EXPECT_EQ(fault_of(with(colour, 30, "\1")), int(ImageFault::other_format));
}

TEST_F(ImageBmp, ClaimsAreCheckedBeforeAllocation) {
    const std::string& colour = files_.at("colour");
    const auto with_size = [&](int64_t width, int64_t height) {
        return problem_of(with(colour, 18, little(uint64_t(width), 4) + little(uint64_t(height), 4)));
    };
    EXPECT_NE(with_size(65535, 65535).find("claims 65535x65535 pixels"), std::string::npos);
    EXPECT_NE(with_size(10, INT32_MIN).find("claims 2147483648x10 pixels"), std::string::npos);
    EXPECT_EQ(with_size(16000, 6000), "BMP: ends too early");
    EXPECT_EQ(with_size(16000, -6000), "BMP: ends too early");
    EXPECT_EQ(with_size(0, 10), "has no pixels");
    EXPECT_EQ(with_size(-61, 47), "has no pixels");
    EXPECT_EQ(problem_of(with(colour, 10, little(UINT32_MAX, 4))), "BMP: ends too early");
    EXPECT_EQ(problem_of(with(colour, 10, little(13, 4))), "BMP: its pixels begin in its header");
}

// A table that claims more colours than there are bytes before the pixels ends there.
TEST_F(ImageBmp, ColoursBeyondTheTableAreBlack) {
    std::string few = files_.at("8-bits");
    const RgbImage all = decoded(few);
    const RgbImage image = decoded(with(few, 46, little(1, 4)));  // biClrUsed
    const uint8_t* first = reinterpret_cast<const uint8_t*>(few.data()) + 54;
    for (size_t i = 0; i < all.pixels.size(); i += 3) {
        const bool is_first =
            all.pixels[i] == first[2] && all.pixels[i + 1] == first[1] && all.pixels[i + 2] == first[0];
        ASSERT_EQ(image.pixels[i], is_first ? all.pixels[i] : 0) << i;
    }
    EXPECT_EQ("", problem_of(with(few, 46, little(UINT32_MAX, 4))));
}

}  // namespace
}  // namespace convoy::test
