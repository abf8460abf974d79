// Image files as pixels, compared with what Pillow reads from the same files
// (tests/support/image_files.py).
#include "data/image_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/unit/decoded_files.h"

namespace convoy::test {
namespace {

class ImageFile : public DecodedFiles {
protected:
    static void SetUpTestSuite() { make("image_files.py"); }
};

TEST_F(ImageFile, IsWhatPillowReads) { expect_pixels_of_pillow(14 + 17 + 4); }

TEST_F(ImageFile, SaysWhatWasSpecial) {
    expect_notes({{"colour", {}},
                  {"progressive", {}},
                  {"grey", {ImageNote::grey}},
                  {"cmyk", {ImageNote::cmyk}},
                  {"ycck", {ImageNote::cmyk}},
                  {"turned1", {}},
                  {"turned2", {ImageNote::turned}},
                  {"turned8", {ImageNote::turned}},
                  {"png-colour", {ImageNote::png}},
                  {"png-alpha", {ImageNote::png, ImageNote::alpha}},
                  {"png-turned6", {ImageNote::png, ImageNote::turned}},
                  {"png-palette", {ImageNote::png}},
                  {"png-palette-transparent", {ImageNote::png, ImageNote::alpha}},
                  {"png-bits", {ImageNote::png, ImageNote::grey}},
                  {"png-16-grey-alpha", {ImageNote::png, ImageNote::grey, ImageNote::alpha, ImageNote::sixteen_bits}}});
}

TEST_F(ImageFile, ThatIsCutOffAnywhereIsRefused) {
    expect_refused_wherever_cut({"colour", "progressive", "grey", "cmyk", "png-colour", "png-palette"});
}

TEST_F(ImageFile, WithFlippedBitsIsReadOrRefused) { EXPECT_GT(refused_with_flipped_bits(200), 100); }

TEST_F(ImageFile, WithExtraBytesIsReadAndNoted) {
    const std::string& whole = files_.at("colour");
    const std::string extra(100, 'x');  // more than the decoder reads ahead
    const RgbImage image = decoded(whole.substr(0, whole.size() - 2) + extra + whole.substr(whole.size() - 2));
    EXPECT_TRUE(image.has(ImageNote::extra_bytes));
    EXPECT_EQ(image.pixels, decoded(whole).pixels);
    EXPECT_EQ("", problem_of(whole + "what stands after the end is no part of it"));
}

TEST_F(ImageFile, ClaimsAreCheckedBeforeAllocation) {
    const auto with_size = [](std::string file, int height, int width) {
        const size_t frame = file.find("\xff\xc0");  // a frame header: length, precision, height, width
        for (const auto& [at, value] : {std::pair(frame + 5, height), {frame + 7, width}}) {
            file[at] = char(value >> 8);
            file[at + 1] = char(value);
        }
        return file;
    };
    const std::string& jpeg = files_.at("grey");
    EXPECT_NE(problem_of(with_size(jpeg, 40'000, 100)).find("claims 40000x100"), std::string::npos);
    EXPECT_NE(problem_of(with_size(jpeg, 12'000, 12'000)).find("claims 12000x12000"), std::string::npos);
    EXPECT_NE(problem_of(with_size(jpeg, 2'000, 2'000)).find("than its 1107 bytes can hold"), std::string::npos);
    EXPECT_NE("", problem_of(with_size(jpeg, 0, 10)));

    std::string png = files_.at("png-colour");
    png[16] = 0x7f;  // the width's first byte; the chunk's checksum is then wrong as well
    EXPECT_NE("", problem_of(png));
}

// Each text inflates to 7.9 MB. All together would take minutes.
TEST_F(ImageFile, TextsOfAPngAreNotInflated) {
    const auto chunk = [](const std::string& content) {
        std::string text;
        for (int shift = 24; shift >= 0; shift -= 8) text += char((content.size() - 4) >> shift);
        text += content;
        const uint64_t sum = crc32(0, reinterpret_cast<const uint8_t*>(content.data()), uInt(content.size()));
        for (int shift = 24; shift >= 0; shift -= 8) text += char(sum >> shift);
        return text;
    };
    const std::string zeros(7'900'000, '\0'), &whole = files_.at("png-colour");
    uLongf bytes = compressBound(zeros.size());
    std::string packed(bytes, '\0');
    ASSERT_EQ(compress(reinterpret_cast<uint8_t*>(packed.data()), &bytes,
                       reinterpret_cast<const uint8_t*>(zeros.data()), zeros.size()),
              Z_OK);
    packed.resize(bytes);
    const std::string text = chunk("zTXt" + std::string("key\0\0", 5) + packed);
    std::string file = whole.substr(0, 33);  // its header
    for (int i = 0; i < 5000; ++i) file += text;
    EXPECT_TRUE(decoded(file + whole.substr(33)).pixels == decoded(whole).pixels);
}

TEST_F(ImageFile, ThatIsNoneIsRefused) {
    EXPECT_EQ("is empty", problem_of(""));
    EXPECT_EQ("is a HEIC image, not JPEG, PNG, WebP, GIF, BMP or TIFF",
              problem_of(std::string("\0\0\0\x18", 4) + "ftypheic"));
    EXPECT_EQ("is a web page, not JPEG, PNG, WebP, GIF, BMP or TIFF", problem_of("<html>404 Not Found</html>"));
    EXPECT_EQ("is not JPEG, PNG, WebP, GIF, BMP or TIFF", problem_of("404 Not Found"));
    EXPECT_NE("", problem_of("RIFF\1\1\1\1WEBPVP8 "));
    EXPECT_NE("", problem_of("GIF89a and so on"));
    EXPECT_NE("", problem_of("BM"));
    EXPECT_NE("", problem_of("MM"));
    EXPECT_NE("", problem_of(std::string("II*\0", 4)));
    EXPECT_NE("", problem_of("\xff\xd8\xff"));
    EXPECT_NE("", problem_of("\x89PNG\r\n\x1a\n"));
}

// Covers both byte orders. Nothing beyond the segment is read (checked by the sanitizer).
TEST_F(ImageFile, OrientationIsOneWhereExifSaysNone) {
    const std::string good("Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0", 28);
    EXPECT_EQ(exif_orientation(bytes_of(good)), 6);
    for (size_t length = 0; length < 26; ++length) EXPECT_EQ(exif_orientation(bytes_of(good.substr(0, length))), 1);
    const std::pair<size_t, char> changes[] = {{0, 'X'}, {6, 'X'}, {10, 9}, {13, '\x7f'},
                                               {18, 4},  {20, 2},  {24, 9}, {24, 0}};
    for (const auto& [at, value] : changes) {
        std::string other = good;
        other[at] = value;
        EXPECT_EQ(exif_orientation(bytes_of(other)), 1) << at;
    }
}

}  // namespace
}  // namespace convoy::test
