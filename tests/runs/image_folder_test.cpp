// convoy convert imagefolder, as started by users: the same bytes on any number of ranks, from a
// folder and from archives, and after a kill.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "cli/commands.h"
#include "data/image_resize.h"
#include "data/shard.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// A row of a data set: its pixels, sizes and class.
struct Row {
    int height, width;
    int32_t label;
    std::vector<uint8_t> pixels;
    auto operator<=>(const Row&) const = default;
};

std::vector<Row> rows_in(const std::string& dir, const std::string& split) {
    const SplitReader reader(dir, split);
    const SplitInfo& info = reader.info();
    std::vector<Row> rows;
    const std::vector<ImagePlace> places = info.ragged ? reader.places() : std::vector<ImagePlace>();
    for (int64_t i = 0; i < info.images; ++i) {
        Row row{info.height, info.width, -1, {}};
        if (info.ragged) {
            row.height = places[i].height;
            row.width = places[i].width;
        }
        row.pixels.resize(size_t(row.height) * size_t(row.width) * 3);
        reader.read(i, 1, row.pixels.data(), &row.label);
        rows.push_back(std::move(row));
    }
    return rows;
}

/// Returns the rows expected of make_image_folder(…, classes, images), sorted.
std::vector<Row> expected_rows(const std::string& root, int classes, const Resize& how) {
    std::vector<Row> rows;
    for (int c = 0; c < classes; ++c)
        for (const auto& entry : fs::directory_iterator(root + formatted("/n%08d", c))) {
            RgbImage image, small;
            decode_image(bytes_of(read_file(entry.path())), image);
            const RgbImage& shown = resize(image, how, small) ? small : image;
            rows.push_back({shown.height, shown.width, c, shown.pixels});
        }
    std::sort(rows.begin(), rows.end());
    return rows;
}

class ImageFolder : public testing::Test {
protected:
    /// Returns the output of `action`; an Error fails the test.
    static std::string printed(const std::function<void()>& action) {
        testing::internal::CaptureStdout();
        try {
            action();
        } catch (const Error& error) {
            ADD_FAILURE() << error.what();
        }
        return testing::internal::GetCapturedStdout();
    }
    /// Converts in this process. Returns the output.
    std::string convert_here(std::vector<std::string> args) {
        args.insert(args.end(), {"--to", out_});
        testing::internal::CaptureStderr();
        const std::string out = printed([&] { EXPECT_EQ(convert_images(test_comm(), args), 0); });
        said_ = testing::internal::GetCapturedStderr();
        return out;
    }
    std::string problem(Exit code, std::vector<std::string> args, const std::vector<std::string>& words) {
        args.insert(args.end(), {"--to", out_});
        testing::internal::CaptureStderr();
        const std::string wrong = problem_of_error(code, words, [&] { convert_images(test_comm(), args); });
        said_ = testing::internal::GetCapturedStderr();
        return wrong;
    }
    std::string verified() const {
        return printed([&] { EXPECT_EQ(verify({out_}), 0); });
    }
    std::vector<Row> all_rows() const {
        std::vector<Row> rows = rows_in(out_, "train"), test = rows_in(out_, "test");
        rows.insert(rows.end(), test.begin(), test.end());
        std::sort(rows.begin(), rows.end());
        return rows;
    }

    TempDir dir_;
    std::string root_ = dir_.path("in"), out_ = dir_.path("out"), said_;
};

TEST_F(ImageFolder, EveryImageIsInItOnce) {
    make_image_folder(root_, 3, 30);
    const std::string said = convert_here({"--from", root_ + "/", "--short-side", "24", "--shards", "4"});
    EXPECT_NE(said.find("85 train images, 5 test images, pixels, short side 24, 3 classes, 5 shards"),
              std::string::npos)
        << said;
    EXPECT_EQ(all_rows(), expected_rows(root_, 3, {Resize::Kind::short_side, 24}));
    EXPECT_NE(verified().find("every checksum matches"), std::string::npos);
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
    const std::string shard = out_ + "/train-00001-of-00004.h5";
    const h5::Handle file = h5::open(shard);
    EXPECT_EQ(h5::string_attribute(file, "resized", shard), "short side 24");
    EXPECT_EQ(h5::int_attribute(file, "permutation_seed", shard), 0);
    EXPECT_EQ(h5::string_attribute(file, "source", shard), "in");
}

TEST_F(ImageFolder, OfOneSizeIsAnOrdinaryDataSet) {
    make_image_folder(root_, 3, 30);
    convert_here({"--from", root_, "--size", "28x20"});
    EXPECT_EQ(all_rows(), expected_rows(root_, 3, {Resize::Kind::exact, 0, 28, 20}));
    EXPECT_FALSE(SplitReader(out_, "train").info().ragged);
    verified();
    convert_here({"--from", root_, "--size", "32x32", "--force"});
    EXPECT_EQ("", failure(convoy_alone("train --model airbench94 --batch-size 16 --max-steps 2 --threads 1 --data " +
                                       out_ + " --output " + dir_.path("run"))));
}

TEST_F(ImageFolder, KeptFilesAreDecodedAsTheyAreRead) {
    make_image_folder(root_, 2, 20);
    const std::string one = read_file(root_ + "/n00000000/n00000000_3.JPEG");
    const std::string said = convert_here({"--from", root_, "--keep-jpeg", "--val-share", "0.25"});
    EXPECT_NE(said.find("30 train images, 10 test images, files as they are"), std::string::npos) << said;
    EXPECT_EQ(all_rows(), expected_rows(root_, 2, {}));
    const auto files = files_in(out_);
    EXPECT_TRUE(std::any_of(files.begin(), files.end(), [&](const auto& file) {
        return file.second.find(one) != std::string::npos;
    })) << "the file's own bytes are in no shard";
    EXPECT_NE(verified().find("jpeg"), std::string::npos);
}

// Shuffling in a window needs rows of all classes everywhere.
TEST_F(ImageFolder, RowsArePermutedByTheSeed) {
    make_image_folder(root_, 4, 25);
    const auto labels = [&](const char* seed) {
        convert_here({"--from", root_, "--size", "4x4", "--shards", "1", "--seed", seed, "--force"});
        std::vector<int32_t> all;
        for (const Row& row : rows_in(out_, "train")) all.push_back(row.label);
        return all;
    };
    const std::vector<int32_t> first = labels("1"), second = labels("2");
    EXPECT_NE(first, second);
    EXPECT_EQ(first, labels("1"));
    int changes = 0;
    for (size_t i = 1; i < first.size(); ++i) changes += first[i] != first[i - 1];
    // 94 pairs of neighbours, each with two classes with probability 3/4: 71 ± 4
    EXPECT_GT(changes, 55);
}

TEST_F(ImageFolder, IsTheSameOnAnyNumberOfRanks) {
    make_image_folder(root_, 3, 40);
    write_file(root_ + "/n00000001/broken.jpg", "\xff\xd8\xff no image");
    std::map<std::string, std::string> alone;
    for (const int ranks : {1, 2, 4}) {
        const std::string to = dir_.path("out" + std::to_string(ranks));
        const Finished f =
            launch(ranks, "convert imagefolder --short-side 30 --shards 5 --from " + root_ + " --to " + to);
        ASSERT_EQ("", failure(f));
        EXPECT_NE(f.out.find("114 train images, 6 test images"), std::string::npos) << f.out;
        EXPECT_NE(f.out.find("left out: 1 image (1 damaged), as\n    n00000001/broken.jpg: "), std::string::npos)
            << f.out;
        if (ranks == 1)
            alone = files_in(to);
        else
            EXPECT_TRUE(files_in(to) == alone) << ranks << " ranks wrote other bytes";
    }
    EXPECT_EQ(alone.size(), 5u + 1 + 1);
}

TEST_F(ImageFolder, AnArchiveOfItGivesTheSameRows) {
    make_image_folder(root_, 3, 20);
    convert_here({"--from", root_, "--short-side", "16"});
    const std::vector<Row> train = rows_in(out_, "train"), test = rows_in(out_, "test");
    ASSERT_EQ(run("cd " + root_ +
                  " && tar -cf ../whole.tar . && gzip -k ../whole.tar && "
                  "for c in n*; do tar -cf ../$c.tar -C $c . ; done && cd .. && tar -cf nested.tar n*.tar")
                  .code,
              0);
    for (const char* archive : {"whole.tar", "whole.tar.gz", "nested.tar"}) {
        convert_here({"--from", dir_.path(archive), "--short-side", "16", "--force"});
        EXPECT_TRUE(rows_in(out_, "train") == train) << archive;
        EXPECT_TRUE(rows_in(out_, "test") == test) << archive;
        EXPECT_FALSE(fs::exists(out_ + ".partial"));
    }
}

TEST_F(ImageFolder, TestImagesOfTheirOwn) {
    make_image_folder(root_, 3, 10);
    make_image_folder(dir_.path("val"), 2, 4);
    write_file(dir_.path("classes.txt"), "n00000000 tench\nn00000001 goldfish\nn00000002 great white shark\n");
    const std::vector<std::string> args = {
        "--from", root_, "--val", dir_.path("val"), "--classes", dir_.path("classes.txt"), "--size", "8x8"};
    const std::string said = convert_here(args);
    EXPECT_NE(said.find("30 train images, 8 test images"), std::string::npos) << said;
    EXPECT_EQ(said.find("drawn by --seed"), std::string::npos) << said;
    EXPECT_EQ(SplitReader(out_, "test").info().class_names,
              (std::vector<std::string>{"tench", "goldfish", "great white shark"}));
    std::map<int32_t, int> counts;
    for (const Row& row : rows_in(out_, "test")) ++counts[row.label];
    EXPECT_EQ(counts, (std::map<int32_t, int>{{0, 4}, {1, 4}}));
    make_image_folder(dir_.path("val"), 4, 1);
    fs::remove_all(out_);
    EXPECT_EQ("", problem(Exit::bad_input, args, {"n00000003", "the training has none of it"}));
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
}

// ISO 8859-1's e acute. In a class name it would get into attributes, in a file name only into
// messages.
TEST_F(ImageFolder, NamesThatAreNoUtf8) {
    const std::string odd = "caf\xe9", in = dir_.path(odd);
    make_image_folder(in, 2, 10);
    fs::rename(in + "/n00000001/n00000001_1.JPEG", in + "/n00000001/" + odd + ".jpg");
    write_file(in + "/n00000001/" + odd + ".png", "damaged");
    const std::string said = convert_here({"--from", in, "--size", "8x8"});
    EXPECT_NE(said.find("19 train images, 1 test image"), std::string::npos) << said;
    EXPECT_EQ(all_rows(), [&] {
        fs::remove(in + "/n00000001/" + odd + ".png");
        return expected_rows(in, 2, {Resize::Kind::exact, 0, 8, 8});
    }());
    fs::remove_all(out_);
    make_image_folder(root_, 2, 3);
    fs::rename(root_ + "/n00000001", root_ + "/" + odd);
    for (const int ranks : {1, 2})
        EXPECT_EQ("", refusal(launch(ranks, "convert imagefolder --from " + root_ + " --to " + out_), Exit::bad_input,
                              {"class 'caf\\xe9'", "is no UTF-8", "--classes"}))
            << ranks;
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
    write_file(dir_.path("classes.txt"), std::string("n00000000 te\0ch\n", 16) + odd + " coffee house\n");
    EXPECT_EQ("", problem(Exit::bad_input, {"--from", root_, "--classes", dir_.path("classes.txt")}, {"zero byte"}));
    write_file(dir_.path("classes.txt"), "n00000000 tench\n" + odd + " coffee house\n");
    convert_here({"--from", root_, "--size", "8x8", "--classes", dir_.path("classes.txt")});
    EXPECT_EQ(SplitReader(out_, "train").info().class_names, (std::vector<std::string>{"coffee house", "tench"}));
}

TEST_F(ImageFolder, DamagedFilesAreLeftOutOrEndIt) {
    make_image_folder(root_, 2, 12);
    const std::string good = read_file(root_ + "/n00000000/n00000000_1.JPEG");
    write_file(root_ + "/n00000000/cut.jpg", good.substr(0, good.size() * 2 / 3));
    write_file(root_ + "/n00000001/empty.png", "");
    write_file(root_ + "/n00000001/text.jpeg", "404 not found");
    write_file(root_ + "/n00000001/notes.txt", "no image");
    const std::string said = convert_here({"--from", root_, "--size", "8x8"});
    for (const char* part :
         {"left out: 3 images (1 truncated, 1 empty, 1 of another format), as", "cut.jpg: Premature end",
          "empty.png: is empty", "text.jpeg: is not JPEG, PNG, WebP, GIF, BMP or TIFF",
          "passed over: 1 file that is not named as an image (n00000001/notes.txt)"})
        EXPECT_NE(said.find(part), std::string::npos) << part << " is not in " << said;
    EXPECT_EQ(all_rows(), [&] {
        for (const char* name :
             {"/n00000000/cut.jpg", "/n00000001/empty.png", "/n00000001/text.jpeg", "/n00000001/notes.txt"})
            fs::remove(root_ + name);
        return expected_rows(root_, 2, {Resize::Kind::exact, 0, 8, 8});
    }());
    write_file(root_ + "/n00000000/cut.jpg", good.substr(0, good.size() * 2 / 3));
    for (const int ranks : {1, 3})
        EXPECT_EQ("", refusal(launch(ranks, "convert imagefolder --size 8x8 --shards 3 --strict --from " + root_ +
                                                " --to " + dir_.path("strict")),
                              Exit::bad_input, {"n00000000/cut.jpg", "Premature end", "--strict"}))
            << ranks;
    EXPECT_FALSE(fs::exists(dir_.path("strict")));
}

// A picture of 70 bytes would take 12 MB.
TEST_F(ImageFolder, APictureThatGrowsFarMoreThanAPhotographIsLeftOut) {
    make_image_folder(root_, 2, 10);
    if (run("/usr/bin/python3 -c \"from PIL import Image; Image.new('RGB', (64, 1)).save('" + root_ +
            "/n00000000/narrow.png')\"")
            .code != 0)
        GTEST_SKIP() << "no Pillow";
    EXPECT_EQ("", problem(Exit::bad_input, {"--from", root_, "--strict"}, {"narrow.png", "10000 times the bytes"}));
}

// Bytes after the end of a JPEG would be kept, too.
TEST_F(ImageFolder, AKeptPictureHasFewBytesBesideItsPixels) {
    make_image_folder(root_, 2, 10);
    const std::string picture = root_ + "/n00000000/long.jpg";
    const std::string jpeg = jpeg_of(pattern(48, 64, 2));
    const std::vector<std::string> args = {"--from", root_, "--keep-jpeg", "--strict"};
    write_file(picture, jpeg + std::string((1 << 20) + 50'000, 'x'));
    EXPECT_EQ("", problem(Exit::bad_input, args, {"long.jpg", "far more bytes than its pixels"}));
    write_file(picture, jpeg + std::string(500'000, 'x'));
    convert_here(args);
}

TEST_F(ImageFolder, OfAnotherListStartsOver) {
    make_image_folder(root_, 2, 10);
    const std::vector<std::string> args = {"--from", root_, "--size", "8x8", "--shards", "2"};
    convert_here(args);
    const auto whole = files_in(out_);
    fs::remove_all(out_);
    write_file(root_ + "/n00000000/cut.jpg", "\xff\xd8\xff");
    std::vector<std::string> strict = args;
    strict.push_back("--strict");
    EXPECT_EQ("", problem(Exit::bad_input, strict, {"cut.jpg"}));
    EXPECT_TRUE(fs::exists(out_ + ".partial/conversion.json"));
    const std::string other = root_ + "/n00000001/n00000001_3.JPEG";
    EXPECT_EQ("", problem(Exit::bad_input, strict, {"cut.jpg"}));
    EXPECT_NE(said_.find("continues"), std::string::npos) << said_;
    fs::last_write_time(other, fs::last_write_time(other) - std::chrono::hours(24));  // like a replacement by cp -p
    EXPECT_EQ("", problem(Exit::bad_input, strict, {"cut.jpg"}));
    EXPECT_NE(said_.find("starts over"), std::string::npos) << said_;
    fs::remove(root_ + "/n00000000/cut.jpg");
    convert_here(args);
    EXPECT_NE(said_.find("starts over"), std::string::npos) << said_;
    EXPECT_TRUE(files_in(out_) == whole);
}

// The next run unpacks them again, and they may be large.
TEST_F(ImageFolder, UnpackedArchivesAreRemovedWhenItFails) {
    make_image_folder(root_, 2, 10);
    write_file(root_ + "/n00000000/cut.jpg", "\xff\xd8\xff");
    const std::string packed = dir_.path("in.tar.gz");
    ASSERT_EQ(run("tar -czf " + packed + " -C " + root_ + " .").code, 0);
    const std::vector<std::string> strict = {"--from", packed, "--size", "8x8", "--shards", "2", "--strict"};
    for (const char* said : {"", "continues"}) {
        EXPECT_EQ("", problem(Exit::bad_input, strict, {"cut.jpg"}));
        EXPECT_NE(said_.find(said), std::string::npos) << said_;
        EXPECT_TRUE(fs::exists(out_ + ".partial/conversion.json"));
        EXPECT_FALSE(fs::exists(out_ + ".partial/unpacked-train-0"));
    }
}

TEST_F(ImageFolder, MistakesAreOneLineAndLeaveNothing) {
    make_image_folder(root_, 2, 3);
    const auto refused = [&](std::vector<std::string> args, const std::vector<std::string>& words) {
        args.insert(args.begin(), {"--from", root_});
        return problem(Exit::usage, args, words);
    };
    EXPECT_EQ("", refused({"--size", "8x8", "--keep-jpeg"}, {"--size", "--keep-jpeg", "exclude"}));
    EXPECT_EQ("", refused({"--size", "8"}, {"--size", "'8'", "HxW"}));
    EXPECT_EQ("", refused({"--size", "8x5000"}, {"--size", "'8x5000'", "4096"}));
    EXPECT_EQ("", refused({"--short-side", "0"}, {"--short-side", "1 to 4096"}));
    EXPECT_EQ("", refused({"--shards", "7"}, {"--shards 7", "5 training images"}));
    EXPECT_EQ("", refused({"--val-share", "1"}, {"--val-share", "less than 1"}));
    EXPECT_EQ("", refused({"--val-list", "x"}, {"--val-list", "--val"}));
    EXPECT_EQ("", problem(Exit::usage, {}, {"--from", "required"}));
    EXPECT_EQ("", problem(Exit::bad_input, {"--from", dir_.path("nowhere")}, {"nowhere"}));
    EXPECT_FALSE(fs::exists(out_));
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
    write_file(out_ + "/thesis.txt", "years of work");
    EXPECT_EQ("", refused({}, {out_, "--force"}));
    EXPECT_EQ("", refused({"--force"}, {"thesis.txt"}));
    EXPECT_EQ("", refusal(launch(2, "convert imagefolder --from " + root_ + " --to " + out_), Exit::usage, {out_}));
}

}  // namespace
}  // namespace convoy::test
