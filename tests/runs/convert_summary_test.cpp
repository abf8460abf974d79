// The summary of convoy convert: images, classes and files, on sources like those of users.
#include "cli/convert_summary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "data/shard.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class ConvertSummary : public testing::Test {
protected:
    /// Returns what a conversion with these arguments prints.
    std::string said(std::vector<std::string> args, const std::vector<std::string>& form = {"--size", "8x8"}) {
        args.insert(args.end(), {"--to", out_, "--force"});
        args.insert(args.end(), form.begin(), form.end());
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        std::string problem;
        try {
            EXPECT_EQ(convert_images(test_comm(), args), 0);
        } catch (const Error& error) {
            problem = formatted("exit %d: ", int(error.code)) + error.what();
        }
        testing::internal::GetCapturedStderr();
        return testing::internal::GetCapturedStdout() + problem;
    }
    /// Names the words that `text` lacks.
    static std::string lacks(const std::string& text, const std::vector<std::string>& words) {
        for (const std::string& word : words)
            if (text.find(word) == std::string::npos) return "'" + word + "' is not in:\n" + text;
        return "";
    }
    std::string picture(uint32_t seed) const { return jpeg_of(pattern(24, 20, seed)); }

    TempDir dir_;
    const std::string root_ = dir_.path("in"), out_ = dir_.path("out");
};

// A terminal would run escape sequences in the names that it shows.
TEST_F(ConvertSummary, ClassesWhoseNamesSteerATerminalAreRefused) {
    make_image_folder(root_, 2, 3);
    fs::rename(root_ + "/n00000001", root_ + "/\x1b]0;title\a");
    EXPECT_EQ("",
              lacks(said({"--from", root_}), {"exit 3: class '\\x1b]0;title\\x07' has a control character in its name",
                                              "name it with --classes"}));
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
    const std::string classes = dir_.path("classes.txt");
    write_file(classes, "n00000000 tench\n\x1b]0;title\a c\xc2\x9b\n");
    EXPECT_EQ("", lacks(said({"--from", root_, "--classes", classes}), {"exit 3: class 'c\\xc2\\x9b' has a control"}));
    write_file(classes, "n00000000 tench\n\x1b]0;title\a house\n");
    said({"--from", root_, "--classes", classes});
    EXPECT_EQ(SplitReader(out_, "train").info().class_names, (std::vector<std::string>{"house", "tench"}));
}

// The number at the end of a scan's header has no meaning in a sequential JPEG; phones write other
// values.
TEST_F(ConvertSummary, OddTailsOfScanHeadersAreTakenAndCounted) {
    for (int i = 0; i < 4; ++i) {
        const std::string good = picture(uint32_t(i));
        std::string odd = good;
        const size_t scan = odd.find("\xff\xda"), end = scan + 2 + size_t(static_cast<unsigned char>(odd[scan + 3]));
        odd.replace(end - 3, 3, std::string(3, '\0'));
        write_file(root_ + formatted("/good/%d.jpg", i), good);
        write_file(root_ + formatted("/odd/%d.jpg", i), odd);
        RgbImage wanted, got;
        decode_image(bytes_of(good), wanted);
        decode_image(bytes_of(odd), got);
        EXPECT_EQ(got.pixels, wanted.pixels);
    }
    for (const std::vector<std::string>& args :
         {std::vector<std::string>{"--from", root_}, {"--from", root_, "--strict"}})
        EXPECT_EQ("", lacks(said(args), {"7 train images, 1 test image", "4 with odd headers"}));
}

TEST_F(ConvertSummary, ImagesFromElsewhereAreNamed) {
    for (uint32_t i = 0; i < 4; ++i) write_file(root_ + formatted("/cat/%u.jpg", i), picture(i));
    const std::string none = said({"--from", root_});
    EXPECT_EQ(none.find("outside"), std::string::npos) << none;
    write_file(dir_.path("private/a.jpg"), picture(8));
    write_file(root_ + "/list.txt", "cat/0.jpg 0\ncat/1.jpg 1\ncat/2.jpg 1\n../private/a.jpg 1\n");
    const std::string named = "  outside of the folder that names them: 1 image (";
    EXPECT_EQ("", lacks(said({"--from", root_ + "/list.txt"}), {named + "../private/a.jpg)", "3 train images"}));
    fs::create_symlink("../../private/a.jpg", root_ + "/cat/mine.jpg");
    EXPECT_EQ("", lacks(said({"--from", root_}), {named + "cat/mine.jpg)", "from " + root_ + ": 5 images"}));
}

TEST_F(ConvertSummary, EachReasonToLeaveAnImageOutIsCounted) {
    for (uint32_t i = 0; i < 8; ++i) write_file(root_ + formatted("/cat/%u.jpg", i), picture(i));
    const std::string good = picture(1);
    write_file(root_ + "/cat/cut.jpg", good.substr(0, good.size() / 2));
    write_file(root_ + "/cat/empty.jpg", "");
    write_file(root_ + "/cat/phone.jpg", std::string("\0\0\0\x18", 4) + "ftypheic");
    write_file(root_ + "/cat/page.png", "<!DOCTYPE html>");
    write_file(root_ + "/cat/narrow.jpg", jpeg_of(pattern(9000, 2, 1)));
    std::string flipped = good;
    flipped.replace(flipped.find("\xff\xdb"), 2, "xx");  // marker of a table
    write_file(root_ + "/cat/flipped.jpg", flipped);
    write_file(root_ + "/cat/secret.jpg", good);
    fs::permissions(root_ + "/cat/secret.jpg", fs::perms::none);
    testing::internal::CaptureStdout();
    const bool root = ::geteuid() == 0;
    EXPECT_EQ(convert_images(test_comm(), {"--from", root_, "--short-side", "64", "--to", dir_.path("sides")}), 0);
    EXPECT_EQ(
        "", lacks(testing::internal::GetCapturedStdout(),
                  {root ? "left out: 6 images (1 damaged, 1 truncated, 1 empty, 2 of another format, 1 too narrow), as"
                        : "left out: 7 images (1 damaged, 1 truncated, 1 empty, 2 of another format, 1 too narrow, "
                          "1 unreadable), as",
                   "cut.jpg: Premature end"}));
    record_fault("pictures that are damaged, truncated, empty, too narrow, of another format, or not to be opened",
                 "left out, each reason counted; `--strict` ends there with exit 3", "as promised", 1);
}

// For some seed, the only test image would be the bad one.
TEST_F(ConvertSummary, FewImagesAreDrawnAmongThoseThatCanBeRead) {
    for (uint32_t i = 0; i < 5; ++i) write_file(root_ + formatted("/cat/%u.jpg", i), picture(i));
    for (const char* name : {"a", "b", "c"}) write_file(root_ + "/cat/" + name + ".jpg", "no picture");
    for (int seed = 0; seed < 8; ++seed)
        EXPECT_EQ("", lacks(said({"--from", root_, "--seed", std::to_string(seed), "--shards", "4"}),
                            {"4 train images, 1 test image", "5 shards", "left out: 3 images (3 of another format)"}))
            << seed;
    EXPECT_EQ("", lacks(said({"--from", root_, "--strict"}),
                        {"exit 3: cat/", "is not JPEG, PNG, WebP, GIF, BMP or TIFF", "--strict"}));
    for (uint32_t i = 0; i < 5; ++i) fs::remove(root_ + formatted("/cat/%u.jpg", i));
    EXPECT_EQ("", lacks(said({"--from", root_}), {"exit 3: ", "of its 3 images none can be read, as cat/a.jpg"}));
    record_fault("three of eight pictures cannot be read, in four shards and a test split of one",
                 "drawn among the others; exit 0", "as promised", 8);
}

TEST_F(ConvertSummary, EverySourceAndClassSaysWhatItGave) {
    for (uint32_t i = 0; i < 6; ++i) write_file(root_ + formatted("/x/%u.jpg", i), picture(i));
    std::string lines;
    for (int i = 0; i < 6; ++i) lines += formatted("x/%d.jpg %d\n", i, i % 3 == 2 ? 4 : i % 3 + 1);
    write_file(root_ + "/list.txt", lines);
    EXPECT_EQ("", lacks(said({"--from", root_ + "/list.txt"}), {"5 classes", "from " + root_ + "/list.txt: 6 images",
                                                                "2 of 5 classes without a train image: 0, 3"}));
    write_file(root_ + "/y/bad.jpg", "");
    EXPECT_EQ("", lacks(said({"--from", root_}), {"2 classes", "1 of 2 classes without a train image: y"}))
        << "a class whose images cannot be read";
    ASSERT_EQ(run("cd " + root_ +
                  " && for i in $(seq 30); do cp -r x c$i && tar -cf a$i.tar c$i; done && tar -cf big.tar x y")
                  .code,
              0);
    std::vector<std::string> args = {"--from"};
    for (int i = 1; i <= 30; ++i) args.push_back(root_ + formatted("/a%d.tar", i));
    args.push_back(root_ + "/big.tar");
    EXPECT_EQ("", lacks(said(args), {"from " + root_ + "/a10.tar: 6 images", "from 21 more; the fewest are 6 from",
                                     "the most 7 from " + root_ + "/big.tar"}));
}

TEST_F(ConvertSummary, BothSplitsOfOneFolderAreTaken) {
    make_image_folder(root_ + "/train", 2, 4);
    make_image_folder(root_ + "/val", 2, 2);
    const std::string text = said({"--from", root_});
    EXPECT_EQ("", lacks(text, {"8 train images, 4 test images", "2 classes", "from " + root_ + ", training: 8 images",
                               "from " + root_ + ", test: 4 images"}));
    EXPECT_NE("", lacks(text, {"drawn by --seed"}));
    EXPECT_EQ(SplitReader(out_, "train").info().class_names, (std::vector<std::string>{"n00000000", "n00000001"}));
    EXPECT_EQ(
        "", lacks(said({"--from", root_ + "/train", "--val", root_ + "/train"}), {"in both splits: 8 images (n0000"}));
}

TEST_F(ConvertSummary, EachClassSaysHowManyImagesItHas) {
    make_image_folder(root_, 3, 10);
    EXPECT_EQ("", lacks(said({"--from", root_, "--val-share", "0.2"}),
                        {"images by class, train + test: n00000000 8 + 2, n00000001 8 + 2, n00000002 8 + 2\n",
                         "the test split is 20 % of each class"}));
    make_image_folder(root_, 12, 2);
    make_image_folder(root_ + "/n00000005", 1, 9);
    EXPECT_EQ("", lacks(said({"--from", root_}), {"fewest first: n00000003 ", ", …, ", "n00000005 "}));
}

// The first bytes say the format, and the names that these are pictures.
TEST_F(ConvertSummary, PicturesOfOtherFormatsAreNamedInOneLine) {
    make_image_folder(root_, 2, 4);
    const std::string box("\0\0\0\x18", 4);
    const std::pair<const char*, std::string> files[] = {{"a.heic", box + "ftypheic"},
                                                         {"b.heic", "GIF89a"},
                                                         {"c.HEIF", box + "ftypmif1"},
                                                         {"d.avif", box + "ftypavif"},
                                                         {"e.jp2", box + "jP  "},
                                                         {"f.jxl", "\xff\x0a"},
                                                         {"g.heic", ""},
                                                         {"notes.txt", "GIF89a"}};
    for (const auto& [name, bytes] : files) write_file(root_ + "/n00000000/" + name, bytes);
    const std::string text = said({"--from", root_});
    EXPECT_EQ("", lacks(text, {"passed over: 7 pictures of formats that are not read (n00000000/a.heic, ",
                               ", …): 1 AVIF, 1 GIF, 1 HEIC, 1 HEIF, 1 JPEG 2000, 1 JPEG XL, 1 of unknown format; "
                               "convert them to JPEG or PNG first\n",
                               "1 file that is not named as an image (n00000000/notes.txt)"}));
    record_fault("pictures of a folder are HEIC, AVIF, JPEG 2000 or JPEG XL",
                 "passed over, counted by format in one line", "as promised", 1);
    ASSERT_EQ(run("cd " + root_ + " && tar -cf ../in.tar *").code, 0);
    EXPECT_EQ("", lacks(said({"--from", dir_.path("in.tar")}),
                        {"7 pictures of formats that are not read", "; convert them to JPEG or PNG first\n"}));
}

// Folders, archives and lists; the files begin with a byte for the fuzzed readers.
TEST_F(ConvertSummary, PicturesOfSixFormatsAreReadFromEverySource) {
    make_image_folder(root_, 2, 4);
    const std::pair<const char*, const char*> files[] = {
        {"webp/good", "a.webp"},   {"webp/animated", "b.WEBP"}, {"gif/good", "c.gif"},
        {"gif/animated", "d.GIF"}, {"bmp/good", "e.bmp"},       {"bmp/masks", "f.jpg"},
        {"tiff/good", "g.tif"},    {"tiff/tiled", "h.TIFF"},    {"tiff/cut-off", "i.tif"}};
    std::string lines;
    for (const auto& [input, name] : files) {
        const std::string file = std::string(root_) + "/n00000000/" + name;
        write_file(file, read_file(std::string("tests/fuzz/inputs/") + input).substr(1));
        lines += file + " 1\n";
    }
    write_file(dir_.path("list.txt"), lines + root_ + "/n00000001/n00000001_0.JPEG 0\n");
    ASSERT_EQ(run("cd " + root_ + " && tar -cf ../in.tar *").code, 0);
    const std::vector<std::string> wanted = {"2 WebP, 2 GIF, 2 BMP, 2 TIFF, 2 of several pictures, of which the first",
                                             "left out: 1 image (1 "};
    for (const std::string& source : {std::string(root_), dir_.path("in.tar"), dir_.path("list.txt")}) {
        const std::string text = said({"--from", source});
        EXPECT_EQ("", lacks(text, wanted)) << text;
        EXPECT_EQ("", lacks(said({"--from", source}, {"--keep-jpeg"}), wanted));
        const SplitReader reader(out_, "train");
        std::vector<uint8_t> pixels(reader.info().image_bytes());
        std::vector<int32_t> labels(size_t(reader.info().images));
        reader.read(0, reader.info().images, pixels.data(), labels.data());
    }
    record_fault("a TIFF is cut off among pictures of six formats", "left out and named; the others are read",
                 "as promised", 6);
}

TEST_F(ConvertSummary, ClassesNamedAsSplitsAreDoubted) {
    for (uint32_t i = 0; i < 4; ++i)
        for (const char* name : {"train", "val", "bus"})
            write_file(root_ + formatted("/%s/%u.jpg", name, i), picture(i));
    EXPECT_EQ("",
              lacks(said({"--from", root_}), {"3 classes", "classes named as splits are: train, val; if", "--val"}));
}

// A file's mode is not part of the file, so a shard that lacks an image because of it is made
// again.
TEST_F(ConvertSummary, WhatCouldNotBeOpenedIsTriedAgain) {
    make_image_folder(root_, 2, 200);  // enough images that rows are drawn before any image is read
    write_file(root_ + "/n00000000/bad.jpg", "");
    std::vector<std::string> args = {"--from", root_, "--shards", "4", "--seed", "0"};
    const std::string records = out_ + ".partial/records", record = records + "/" + shard_name("train", 0, 4);
    for (int seed = 1; seed < 20 && !fs::exists(record); ++seed) {  // until a later shard has the bad picture
        args.back() = std::to_string(seed);
        std::vector<std::string> strict = args;
        strict.push_back("--strict");
        EXPECT_EQ("", lacks(said(strict), {"exit 3", "bad.jpg"}));
    }
    ASSERT_TRUE(fs::exists(record));
    auto json = nlohmann::json::parse(read_file(record));
    json["faults"][size_t(ImageFault::unreadable)] = 3;
    write_file(record, json.dump());
    EXPECT_EQ("", lacks(said(args), {"from " + root_ + ": 401 images", "left out: 1 image (1 empty)"}));
}

TEST_F(ConvertSummary, DeadLinksEndAStrictConversion) {
    make_image_folder(root_, 2, 4);
    fs::create_symlink("gone", root_ + "/n00000002");
    EXPECT_EQ("", lacks(said({"--from", root_}),
                        {"8 images", "passed over: 1 link that leads nowhere, or where you may not go (n00000002)"}));
    EXPECT_EQ("",
              lacks(said({"--from", root_, "--strict"}), {"exit 3: n00000002", "target does not exist", "--strict"}));
}

// Simulates a user who downloads digits and keeps some of them.
TEST_F(ConvertSummary, OtherSourcesNameClassesWithoutImages) {
    const auto big_endian = [](uint32_t value) {
        std::string text;
        for (int shift = 24; shift >= 0; shift -= 8) text += char(value >> shift);
        return text;
    };
    const auto idx = [&](const std::string& name, const std::string& labels) {
        const auto n = uint32_t(labels.size());
        write_file(root_ + "/" + name + "-images-idx3-ubyte",
                   big_endian(0x803) + big_endian(n) + big_endian(2) + big_endian(2) + std::string(n * 4, 'p'));
        write_file(root_ + "/" + name + "-labels-idx1-ubyte", big_endian(0x801) + big_endian(n) + labels);
    };
    idx("train", {0, 1, 2, 4, 5, 6, 8, 9});
    idx("t10k", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(convert({"mnist", "--from", root_, "--to", out_}), 0);
    testing::internal::GetCapturedStderr();
    const std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ("", lacks(text, {"2 of 10 classes without a train image: 3, 7"}));
    EXPECT_NE("", lacks(text, {"without a test image"}));
}

}  // namespace
}  // namespace convoy::test
