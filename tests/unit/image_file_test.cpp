// Image files as pixels, compared with what Pillow reads from the same files
// (tests/support/image_files.py).
#include "data/image_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

RgbImage decoded(const std::string& file) {
    RgbImage image;
    decode_image(bytes_of(file), image);
    return image;
}

/// Returns the problem with a file; empty if there is none.
std::string problem(const std::string& file) {
    try {
        decoded(file);
        return "";
    } catch (const BadImage& bad) {
        return bad.what();
    }
}

/// Reads a P6 picture that Pillow wrote.
RgbImage ppm(const std::string& file) {
    std::istringstream in(file);
    std::string magic;
    RgbImage image;
    int most = 0;
    in >> magic >> image.width >> image.height >> most;
    in.get();
    image.pixels.resize(size_t(image.height) * size_t(image.width) * 3);
    in.read(reinterpret_cast<char*>(image.pixels.data()), std::streamsize(image.pixels.size()));
    return image;
}

class ImageFile : public testing::Test {
protected:
    static bool has_pillow() { return run("${PYTHON:-/usr/bin/python3} -c 'import numpy, PIL'").code == 0; }
    static void SetUpTestSuite() {
        if (!has_pillow()) return;
        const TempDir dir;
        const Finished made = run("${PYTHON:-/usr/bin/python3} -B tests/support/image_files.py " + dir.path());
        ASSERT_EQ(made.code, 0) << made.err;
        for (const auto& entry : fs::directory_iterator(dir.path()))
            files_[entry.path().filename()] = read_file(entry.path());
    }
    static void TearDownTestSuite() { files_.clear(); }
    void SetUp() override {
        if (files_.empty()) GTEST_SKIP() << "needs a Python with Pillow and numpy";
    }
    static inline std::map<std::string, std::string> files_;  // by name, "colour" and "colour.ppm"
};

TEST_F(ImageFile, IsWhatPillowReads) {
    int compared = 0;
    for (const auto& [name, content] : files_) {
        if (name.ends_with(".ppm")) continue;
        const RgbImage image = decoded(content), wanted = ppm(files_.at(name + ".ppm"));
        EXPECT_EQ(std::pair(image.height, image.width), std::pair(wanted.height, wanted.width)) << name;
        EXPECT_TRUE(image.pixels == wanted.pixels) << name;
        ++compared;
    }
    EXPECT_EQ(compared, 14 + 8 + 4);
}

TEST_F(ImageFile, SaysWhatWasSpecial) {
    const std::map<std::string, std::vector<ImageNote>> wanted = {
        {"colour", {}},
        {"progressive", {}},
        {"grey", {ImageNote::grey}},
        {"cmyk", {ImageNote::cmyk}},
        {"ycck", {ImageNote::cmyk}},
        {"turned1", {}},
        {"turned2", {ImageNote::turned}},
        {"turned8", {ImageNote::turned}},
        {"png-colour", {ImageNote::png}},
        {"png-alpha", {ImageNote::png, ImageNote::alpha}},
        {"png-palette", {ImageNote::png}},
        {"png-palette-transparent", {ImageNote::png, ImageNote::alpha}},
        {"png-bits", {ImageNote::png, ImageNote::grey}},
        {"png-16-grey-alpha", {ImageNote::png, ImageNote::grey, ImageNote::alpha, ImageNote::sixteen_bits}}};
    for (const auto& [name, notes] : wanted) {
        RgbImage expected;
        for (const ImageNote note : notes) expected.note(note);
        EXPECT_EQ(decoded(files_.at(name)).notes, expected.notes) << name;
    }
}

TEST_F(ImageFile, ThatIsCutOffAnywhereIsRefused) {
    for (const char* name : {"colour", "progressive", "grey", "cmyk", "png-colour", "png-palette"}) {
        const std::string& whole = files_.at(name);
        for (size_t length = 0; length < whole.size(); ++length)
            ASSERT_NE("", problem(whole.substr(0, length))) << name << " with " << length << " bytes";
    }
}

// Flipped bits mostly give other pixels, which cannot be detected. Detected damage is refused.
TEST_F(ImageFile, WithFlippedBitsIsReadOrRefused) {
    std::mt19937 random(11);
    int refused = 0;
    for (const auto& [name, whole] : files_) {
        if (name.ends_with(".ppm")) continue;
        for (int trial = 0; trial < 200; ++trial) {
            std::string damaged = whole;
            damaged[random() % whole.size()] ^= char(1 << random() % 8);
            refused += !problem(damaged).empty();
        }
    }
    EXPECT_GT(refused, 100);
}

TEST_F(ImageFile, WithExtraBytesIsReadAndNoted) {
    const std::string& whole = files_.at("colour");
    const std::string extra(100, 'x');  // more than the decoder reads ahead
    const RgbImage image = decoded(whole.substr(0, whole.size() - 2) + extra + whole.substr(whole.size() - 2));
    EXPECT_TRUE(image.has(ImageNote::extra_bytes));
    EXPECT_EQ(image.pixels, decoded(whole).pixels);
    EXPECT_EQ("", problem(whole + "what stands after the end is no part of it"));
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
    EXPECT_NE(problem(with_size(jpeg, 40'000, 100)).find("claims 40000x100"), std::string::npos);
    EXPECT_NE(problem(with_size(jpeg, 12'000, 12'000)).find("claims 12000x12000"), std::string::npos);
    EXPECT_NE(problem(with_size(jpeg, 2'000, 2'000)).find("than its 1107 bytes can hold"), std::string::npos);
    EXPECT_NE("", problem(with_size(jpeg, 0, 10)));

    std::string png = files_.at("png-colour");
    png[16] = 0x7f;  // the width's first byte; the chunk's checksum is then wrong as well
    EXPECT_NE("", problem(png));
}

TEST_F(ImageFile, ThatIsNoneIsRefused) {
    EXPECT_EQ("is empty", problem(""));
    EXPECT_EQ("is a GIF, neither JPEG nor PNG", problem("GIF89a and so on"));
    EXPECT_EQ("is a web page, neither JPEG nor PNG", problem("<html>404 Not Found</html>"));
    EXPECT_EQ("is neither JPEG nor PNG", problem("404 Not Found"));
    EXPECT_NE("", problem("\xff\xd8\xff"));
    EXPECT_NE("", problem("\x89PNG\r\n\x1a\n"));
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
