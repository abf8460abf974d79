// Decoders, and the way to shards and back: exact pixels and labels from generated CIFAR-10 and IDX
// files, and one clear line for every kind of broken source. After a failure nothing is left in
// place of the data set.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "data/decode.h"
#include "data/digest.h"
#include "data/shard.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

namespace fs = std::filesystem;

struct Rows {
    std::vector<uint8_t> images;
    std::vector<int32_t> labels;
    bool operator==(const Rows&) const = default;
};

Rows read_all(const SplitReader& reader) {
    const SplitInfo& info = reader.info();
    Rows rows{std::vector<uint8_t>(size_t(info.images * info.height * info.width * info.channels)),
              std::vector<int32_t>(size_t(info.images))};
    reader.read(0, info.images, rows.images.data(), rows.labels.data());
    return rows;
}

uint8_t pixel(int batch, int row, int byte) { return uint8_t((batch * 31 + row * 17 + byte * 7919) >> 2); }

constexpr int batch_rows = 5;
/// Returns the bytes of one generated batch: label (batch + row) % 10, then planar pixels.
std::string batch_bytes(int batch) {
    std::string bytes;
    for (int row = 0; row < batch_rows; ++row) {
        bytes += char((batch + row) % 10);
        for (int byte = 0; byte < 3072; ++byte) bytes += char(pixel(batch, row, byte));
    }
    return bytes;
}

/// Makes a folder like the one in the official archive. Returns its parent.
std::string make_cifar(const TempDir& dir) {
    const std::string folder = dir.path("cifar/cifar-10-batches-bin/");
    for (int batch = 0; batch < 5; ++batch)
        write_file(folder + "data_batch_" + std::to_string(batch + 1) + ".bin", batch_bytes(batch));
    write_file(folder + "test_batch.bin", batch_bytes(5));
    write_file(folder + "batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
    return dir.path("cifar");
}

/// Returns the rows expected of batches [first, last).
Rows expected_cifar(int first, int last, int rows_each = batch_rows) {
    Rows rows;
    for (int batch = first; batch < last; ++batch)
        for (int row = 0; row < rows_each; ++row) {
            rows.labels.push_back((batch + row) % 10);
            for (int i = 0; i < 1024; ++i)
                for (int c = 0; c < 3; ++c) rows.images.push_back(pixel(batch, row, c * 1024 + i));
        }
    return rows;
}

std::string gzip(const std::string& bytes) {
    const TempDir dir;
    write_file(dir.path("x"), bytes);
    return run("gzip -c " + dir.path("x")).out;
}

std::string idx_header(std::vector<uint32_t> dims) {
    std::string bytes{0, 0, 8, char(dims.size())};
    for (const uint32_t dim : dims)
        for (int shift = 24; shift >= 0; shift -= 8) bytes += char(dim >> shift & 255);
    return bytes;
}

constexpr int idx_height = 6, idx_width = 5;
std::string idx_images(int rows, int salt) {
    std::string bytes = idx_header({uint32_t(rows), idx_height, idx_width});
    for (int i = 0; i < rows * idx_height * idx_width; ++i) bytes += char(i * 37 + salt);
    return bytes;
}
std::string idx_labels(int rows, int salt) {
    std::string bytes = idx_header({uint32_t(rows)});
    for (int i = 0; i < rows; ++i) bytes += char((i + salt) % 10);
    return bytes;
}

void make_idx(const std::string& folder, const std::string& joint, bool zipped) {
    const auto put = [&](const std::string& stem, const std::string& kind, const std::string& bytes) {
        write_file(folder + "/" + stem + joint + kind + (zipped ? ".gz" : ""), zipped ? gzip(bytes) : bytes);
    };
    put("train-images", "idx3-ubyte", idx_images(12, 1));
    put("train-labels", "idx1-ubyte", idx_labels(12, 3));
    put("t10k-images", "idx3-ubyte", idx_images(4, 2));
    put("t10k-labels", "idx1-ubyte", idx_labels(4, 5));
}

Rows expected_idx(int rows, int image_salt, int label_salt) {
    const std::string images = idx_images(rows, image_salt).substr(16), labels = idx_labels(rows, label_salt).substr(8);
    return {{images.begin(), images.end()}, {labels.begin(), labels.end()}};
}

class Convert : public testing::Test {
protected:
    /// Converts and verifies, both quietly.
    void convert_and_verify(std::vector<std::string> args) {
        args.insert(args.end(), {"--to", out_});
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        EXPECT_EQ(convert(args), 0);
        EXPECT_EQ(verify({out_}), 0);
        testing::internal::GetCapturedStdout();
        warnings_ = testing::internal::GetCapturedStderr();
    }
    /// Expects one line with `words` and no file left.
    void expect_failure(std::vector<std::string> args, const std::vector<std::string>& words,
                        Exit code = Exit::bad_input) {
        args.insert(args.end(), {"--to", out_});
        testing::internal::CaptureStderr();
        EXPECT_EQ("", problem_of_error(code, words, [&] { convert(args); }));
        testing::internal::GetCapturedStderr();
        EXPECT_FALSE(fs::exists(out_));
        for (const auto& entry : fs::directory_iterator(dir_.path()))
            EXPECT_EQ(entry.path().string().find("partial"), std::string::npos);
    }

    TempDir dir_;
    std::string out_ = dir_.path("out"), warnings_;
};

TEST_F(Convert, CifarFolderRoundTrip) {
    convert_and_verify({"cifar10", "--from", make_cifar(dir_), "--shards", "3"});
    EXPECT_NE(warnings_.find("can only be checked on the archive"), std::string::npos);
    const SplitReader train(out_, "train"), test(out_, "test");
    EXPECT_EQ(train.info().images, 25);
    EXPECT_EQ(train.info().class_names[9], "truck");
    EXPECT_EQ(read_all(train), expected_cifar(0, 5));
    EXPECT_EQ(read_all(test), expected_cifar(5, 6));
    check_same_shape(train.info(), test.info(), out_);

    const Rows all = read_all(train);  // any range, across shards, reads the same rows
    for (const auto& [first, rows] : {std::pair{0, 1}, {7, 2}, {7, 12}, {24, 1}, {25, 0}}) {
        Rows part{std::vector<uint8_t>(size_t(rows) * 3072), std::vector<int32_t>(size_t(rows))};
        train.read(first, rows, part.images.data(), part.labels.data());
        EXPECT_TRUE(std::equal(part.images.begin(), part.images.end(), all.images.begin() + first * 3072));
        EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), all.labels.begin() + first));
    }
    double sum = 0;
    for (size_t i = 1; i < all.images.size(); i += 3) sum += all.images[i];
    EXPECT_NEAR(train.info().mean[1], sum / (25 * 1024) / 255, 1e-6);
}

TEST_F(Convert, CifarArchiveRoundTripWithLimit) {
    make_cifar(dir_);
    const std::string archive = dir_.path("cifar-10-binary.tar.gz");
    ASSERT_EQ(run("tar -C " + dir_.path("cifar") + " -czf " + archive + " cifar-10-batches-bin").code, 0);
    convert_and_verify({"cifar10", "--from", archive, "--limit-per-file", "2", "--shards", "1"});
    EXPECT_NE(warnings_.find("is not the official archive"), std::string::npos);
    EXPECT_EQ(read_all(SplitReader(out_, "train")), expected_cifar(0, 5, 2));
    const std::string shard = out_ + "/train-00000-of-00001.h5";
    const h5::Handle file = h5::open(shard);
    EXPECT_EQ(h5::string_attribute(file, "source_checksum", shard), "differs");
    EXPECT_EQ(h5::string_attributes(file, "source_sha256", shard)[0], digest_of_file(Digest::Kind::sha256, archive));
}

TEST_F(Convert, BrokenCifarFoldersAreOneLine) {
    const std::string from = make_cifar(dir_), batch = from + "/cifar-10-batches-bin/data_batch_3.bin",
                      whole = read_file(batch);
    const std::vector<std::string> args = {"cifar10", "--from", from};
    write_file(batch, whole.substr(0, 3073 * 3 + 100));
    expect_failure(args, {"data_batch_3.bin", "9319 bytes", "3073"});
    write_file(batch, "");
    expect_failure(args, {"data_batch_3.bin", "0 bytes"});
    std::string bad = whole;
    bad[3073 * 2] = 10;
    write_file(batch, bad);
    expect_failure(args, {"data_batch_3.bin", "row 2", "byte 6146", "label 10"});
    fs::remove(batch);
    expect_failure(args, {"data_batch_3.bin", "missing"});
    write_file(batch, whole);
    write_file(from + "/cifar-10-batches-bin/batches.meta.txt", "airplane\n");
    expect_failure(args, {"batches.meta.txt", "1 classes"});
    expect_failure({"cifar10", "--from", dir_.path("nowhere")}, {"nowhere", "No such file"});
}

TEST_F(Convert, BrokenCifarArchivesAreOneLine) {
    make_cifar(dir_);
    const std::string archive = dir_.path("a.tar.gz");
    const std::vector<std::string> args = {"cifar10", "--from", archive};
    run("tar -C " + dir_.path("cifar") + " -czf " + archive + " --exclude=data_batch_4.bin cifar-10-batches-bin");
    expect_failure(args, {"a.tar.gz", "no member data_batch_4.bin"});
    run("tar -C " + dir_.path("cifar") + " -czf " + archive + " cifar-10-batches-bin");
    const std::string whole = read_file(archive);
    write_file(archive, whole.substr(0, whole.size() / 2));
    expect_failure(args, {"a.tar.gz", "truncated"});
    write_file(archive, whole.substr(0, whole.size() - 4));
    expect_failure(args, {"a.tar.gz", "truncated"});
    std::string flipped = whole;
    flipped[whole.size() - 6] ^= 1;  // in the CRC
    write_file(archive, flipped);
    expect_failure(args, {"a.tar.gz", "damaged"});
    write_file(archive, "hello");
    expect_failure(args, {"a.tar.gz", "tar"});
    const std::string padded = "not a batch";
    write_file(dir_.path("cifar/cifar-10-batches-bin/test_batch.bin"), padded);
    run("tar -C " + dir_.path("cifar") + " -czf " + archive + " cifar-10-batches-bin");
    expect_failure(args, {"a.tar.gz: test_batch.bin", "11 bytes"});
}

TEST_F(Convert, IdxRoundTrip) {
    for (const char* joint : {"-", "."})
        for (const bool zipped : {false, true}) {
            const TempDir from;
            make_idx(from.path(), joint, zipped);
            convert_and_verify({"mnist", "--from", from.path(), "--shards", "2", "--force"});
            EXPECT_EQ(read_all(SplitReader(out_, "train")), expected_idx(12, 1, 3));
            EXPECT_EQ(read_all(SplitReader(out_, "test")), expected_idx(4, 2, 5));
        }
}

TEST_F(Convert, BrokenIdxFilesAreOneLine) {
    const std::string from = dir_.path("idx"), images = from + "/train-images-idx3-ubyte",
                      labels = from + "/train-labels-idx1-ubyte";
    const std::vector<std::string> args = {"mnist", "--from", from};
    const auto expect = [&](const std::string& file, const std::string& bytes, const std::vector<std::string>& words) {
        fs::remove_all(from);
        make_idx(from, "-", false);
        write_file(file, bytes);
        expect_failure(args, words);
    };
    const std::string good = idx_images(12, 1), good_labels = idx_labels(12, 3);
    expect(images, good.substr(0, good.size() - 1), {images, "360 bytes", "359"});
    expect(images, good + "x", {images, "more"});
    expect(images, good.substr(0, 10), {images, "within its header", "byte 10"});
    expect(images, good_labels, {images, "not an IDX file of images"});
    expect(images, idx_header({0xffffffff, 4096, 4096}), {images, "damaged"});
    expect(images, idx_header({100000, 100, 100}), {images, "claims 1000000000 bytes", "damaged"});
    expect(labels, idx_labels(11, 3), {labels, "11 labels for 12 images"});
    std::string bad = good_labels;
    bad[8 + 7] = 10;
    expect(labels, bad, {labels, "row 7", "label 10"});
    const std::string zipped = gzip(good);
    expect(images, zipped.substr(0, zipped.size() - 9), {images, "truncated"});
    std::string flipped = zipped;
    flipped[zipped.size() - 7] ^= 4;
    expect(images, flipped, {images, "damaged"});
    fs::remove(images);
    expect_failure(args, {"train-images-idx3-ubyte", "missing"});
    expect_failure({"mnist", "--from", dir_.path("nowhere")}, {"not a folder"});
}

TEST_F(Convert, SyntheticIsAFunctionOfItsArguments) {
    const std::vector<std::string> args = {"synthetic", "--images",  "40", "--test-images", "8", "--size",
                                           "8x6x2",     "--classes", "4",  "--shards",      "2"};
    convert_and_verify(args);
    const Rows train = read_all(SplitReader(out_, "train"));
    EXPECT_EQ(digest_of(Digest::Kind::md5, train.images.data(), train.images.size()),
              "90c338f0a1e013556c7378731f4d3e9c");
    const std::string manifest = read_file(out_ + "/manifest.json");
    fs::remove_all(out_);
    convert_and_verify(args);
    EXPECT_EQ(read_file(out_ + "/manifest.json"), manifest) << "the same arguments gave other bytes";
    const SplitInfo info = SplitReader(out_, "train").info();
    EXPECT_EQ(std::make_tuple(info.height, info.width, info.channels, info.classes), std::make_tuple(8, 6, 2, 4));
}

// A chunk has at least one image, and a data set with chunks of more than 64 MiB is refused.
TEST_F(Convert, ImagesOfMoreThan64MiBAreRefused) {
    const auto with = [](const std::string& size, const std::string& kind) {
        return std::vector<std::string>{"synthetic", "--images", "1", "--test-images", "1",  "--classes",
                                        "1",         "--shards", "1", "--size",        size, "--kind",
                                        kind};
    };
    expect_failure(with("4096x4096x5", "images"),
                   {"images of 4096x4096x5 take 83886080 bytes each; at most 64 MiB (67108864)"}, Exit::usage);
    expect_failure(with("4096x4096x2", "normal"), {"images of 4096x4096x2 take 134217728 bytes each"}, Exit::usage);
    convert_and_verify(with("4096x4096x4", "images"));
}

// `convert` does not make a data set that `train` refuses, and `verify` does not accept it.
TEST_F(Convert, ADataSetHasTestImages) {
    for (const char* images : {"1", "4", "5", "9"}) {
        convert_and_verify({"synthetic", "--images", images, "--size", "2x2x1", "--shards", "1", "--force"});
        EXPECT_EQ(SplitReader(out_, "train").info().images, std::stoi(images));
        EXPECT_EQ(SplitReader(out_, "test").info().images, 1) << images;
    }
    fs::remove_all(out_);
    const std::vector<std::string> args = {"synthetic", "--images", "9", "--size", "2x2x1", "--test-images", "0"};
    expect_failure(args, {"--test-images", "1 to"}, Exit::usage);
}

TEST_F(Convert, VerifyRefusesADataSetWithoutTestImages) {
    convert_and_verify({"synthetic", "--images", "10", "--size", "2x2x1", "--shards", "1"});
    fs::remove(out_ + "/test-00000-of-00001.h5");
    const std::string manifest = out_ + "/manifest.json", whole = read_file(manifest);
    auto json = nlohmann::json::parse(whole);
    auto& shards = json["shards"];
    shards.erase(
        std::find_if(shards.begin(), shards.end(), [](const auto& shard) { return shard["split"] == "test"; }));
    write_file(manifest, json.dump());
    testing::internal::CaptureStdout();
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {out_, "no test shards"}, [&] { verify({out_}); }));
    testing::internal::GetCapturedStdout();
}

TEST_F(Convert, LeavesWhatIsThereAlone) {
    const std::vector<std::string> args = {"synthetic", "--images", "10", "--size", "2x2x1", "--to", out_};
    write_file(out_ + "/thesis.txt", "years of work");
    EXPECT_EQ("", problem_of_error(Exit::usage, {out_, "--force"}, [&] { convert(args); }));
    std::vector<std::string> forced = args;
    forced.push_back("--force");
    EXPECT_EQ("", problem_of_error(Exit::usage, {"thesis.txt"}, [&] { convert(forced); }));
    EXPECT_EQ(read_file(out_ + "/thesis.txt"), "years of work");
}

TEST_F(Convert, FullDiskIsAnIoErrorAndLeavesNothing) {
    // 16 MiB a file: room for MPI's own session files (4 MiB each), none for a shard of 24 MB.
    const Finished finished = run("trap '' XFSZ; ulimit -f 16384; " + sibling("convoy") +
                                  " convert synthetic --images 8000 --shards 1 --to " + out_);
    EXPECT_EQ(finished.code, int(Exit::io)) << finished.err;
    EXPECT_NE(finished.err.find("disk full"), std::string::npos) << finished.err;
    EXPECT_TRUE(fs::is_empty(dir_.path()));
}

}  // namespace
}  // namespace convoy::test
