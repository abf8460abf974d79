// WebP files as pixels, compared with what Pillow reads from the same files.
#include "tests/unit/decoded_files.h"

namespace convoy::test {
namespace {

class ImageWebp : public DecodedFiles {
protected:
    static void SetUpTestSuite() { make("picture_files.py webp"); }
    static std::string chunk(const std::string& kind, const std::string& content) {
        return kind + little(content.size(), 4) + content + std::string(content.size() % 2, '\0');
    }
    static std::string webp(const std::string& chunks) {
        return "RIFF" + little(chunks.size() + 4, 4) + "WEBP" + chunks;
    }
    /// Returns a lossless picture of one colour, as chunks; each pixel takes no bits.
    static std::string flat(uint64_t width, uint64_t height) {
        std::string bits("\x2f", 1);
        bits += little((width - 1) | (height - 1) << 14, 4);
        // no transform, cache or further codes; five codes of one symbol each: 255, 1, 2, 3, 0
        uint64_t rest = 0;
        int have = 0;
        const auto put = [&](uint64_t value, int count) {
            rest |= value << have;
            have += count;
        };
        put(0, 3);
        for (const uint64_t symbol : {2, 1, 3, 255, 0}) {
            put(0b101 | (symbol > 1) << 2, 3);  // simple, one symbol, of 8 bits
            put(symbol, 8);
        }
        return chunk("VP8L", bits + little(rest, 8));
    }
};

TEST_F(ImageWebp, IsWhatPillowReads) { expect_pixels_of_pillow(16); }

TEST_F(ImageWebp, SaysWhatWasSpecial) {
    expect_notes({{"colour", {ImageNote::webp}},
                  {"lossy", {ImageNote::webp}},
                  {"alpha", {ImageNote::webp, ImageNote::alpha}},
                  {"lossy-alpha", {ImageNote::webp, ImageNote::alpha}},
                  {"animated", {ImageNote::webp, ImageNote::several}},
                  {"turned1", {ImageNote::webp}},
                  {"turned6", {ImageNote::webp, ImageNote::turned}}});
}

TEST_F(ImageWebp, ThatIsCutOffAnywhereIsRefused) {
    for (const char* name : {"colour", "lossy", "lossy-alpha", "animated", "turned6"}) {
        const std::string& whole = files_.at(name);
        for (size_t length = 12; length < whole.size(); ++length)
            ASSERT_EQ(int(ImageFault::truncated), fault_of(whole.substr(0, length))) << name << " " << length;
    }
}

TEST_F(ImageWebp, WithFlippedBitsIsReadOrRefused) { EXPECT_GT(refused_with_flipped_bits(100), 50); }

// Such a picture takes 30 bytes, whatever its size: placeholders are read, bombs are not.
TEST_F(ImageWebp, OneColourIsReadUpToALimit) {
    const RgbImage image = decoded(webp(flat(4000, 5000)));
    EXPECT_EQ(std::pair(image.height, image.width), std::pair(5000, 4000));
    EXPECT_EQ((std::vector<uint8_t>{image.pixels.end() - 3, image.pixels.end()}), (std::vector<uint8_t>{1, 2, 3}));
    const std::string bomb = webp(flat(10'000, 10'000));
    EXPECT_EQ(problem_of(bomb),
              "claims 10000x10000 pixels, more than its " + std::to_string(bomb.size()) + " bytes can hold");
    EXPECT_NE(problem_of(webp(flat(16'384, 16'384))).find("claims 16384x16384 pixels, more than 16384 a side"),
              std::string::npos);
}

TEST_F(ImageWebp, DamageIsRefused) {
    const std::string& whole = files_.at("colour");
    EXPECT_NE("", problem_of(with(whole, 4, little(10, 4)))) << "a shorter RIFF than its chunk";
    EXPECT_NE("", problem_of(with(whole, 16, little(UINT32_MAX, 4)))) << "a chunk of 4 GiB";
    EXPECT_NE("", problem_of(webp(""))) << "no chunk";
    EXPECT_NE("", problem_of(webp(chunk("VP8L", ""))));
    EXPECT_NE("", problem_of(webp(chunk("VP8X", std::string(10, '\0')) + chunk("EXIF", "II*")))) << "no picture";
    EXPECT_EQ("", problem_of(whole + "what stands after the end"));
    // A canvas of another size than its only picture.
    EXPECT_NE("", problem_of(webp(chunk("VP8X", std::string("\0\0\0\0\xff\x3f\0\xff\x0f\0", 10)) + flat(20, 20))));
    const std::string& animated = files_.at("free-canvas");
    const size_t frame = animated.find("ANMF") + 8;
    EXPECT_NE("", problem_of(with(animated, frame, "\xff\xff"))) << "a frame beside its canvas";
}

}  // namespace
}  // namespace convoy::test
