// Mistakes of users, on one rank and on two: one line on stderr that names the file or the option,
// the right exit code, and an end within the time limit.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/shard.h"
#include "tests/faults/faults.h"

namespace convoy::test {
namespace {

using Faults = FaultsTest;

/// Flips one bit in the pixels of row `row` of a split, wherever its shard `path` stores them.
void flip_pixel(const std::string& dir, const std::string& split, int64_t row, const std::string& path) {
    const SplitReader reader(dir, split);
    std::vector<uint8_t> image(size_t(reader.info().height) * reader.info().width * reader.info().channels);
    int32_t label = 0;
    reader.read(row, 1, image.data(), &label);
    std::string bytes = read_file(path);
    const size_t at = bytes.find(std::string(image.begin(), image.end()));
    require(at != std::string::npos, "a shard stores plain pixels");
    bytes[at + 9] = char(bytes[at + 9] ^ 4);
    write_file(path, bytes);
}

TEST_F(Faults, MissingAndIncompleteDataIsRefused) {
    refused(Exit::bad_input, {dir_.path("nowhere"), "convoy convert"},
            "train --batch-size 20 --data " + dir_.path("nowhere"));
    refused(Exit::usage, {"--data", "missing"}, "train --model mnist-linear --batch-size 20");
    write_file(second_, read_file(second_).substr(0, 20000));
    train_refused(Exit::bad_input, {second_, "truncated"});
    accept_into_manifest();
    train_refused(Exit::bad_input, {second_});
    fs::remove(second_);
    train_refused(Exit::bad_input, {second_, "missing"});
}

TEST_F(Faults, DamagedPixelsAreRefused) {
    flip_pixel(data_, "train", 3, first_);
    train_refused(Exit::bad_input, {first_, "/images does not match its checksum"});
}

// Rows 30 to 59 are the second rank's: the first rank must learn of it.
TEST_F(Faults, DamagedPixelsThatOnlyTheSecondRankReadsAreRefused) {
    flip_pixel(data_, "train", 45, second_);
    train_refused(Exit::bad_input, {second_, "/images does not match its checksum"});
}

TEST_F(Faults, LabelBeyondTheClassesIsRefused) {
    {
        const h5::Handle file(H5Fopen(second_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        const int32_t label = 10;
        h5::write_rows(h5::open_dataset(file, "/labels", second_), H5T_NATIVE_INT32, 7, 1, &label, second_);
    }
    accept_into_manifest();
    train_refused(Exit::bad_input, {second_, "row 7 of /labels is 10", "0 to 9"});
}

TEST_F(Faults, ModelThatTakesOtherImagesIsRefused) {
    train_refused(Exit::bad_input, {"resnet18", "28x28x1", "--model"}, "--model resnet18 --batch-size 20");
}

TEST_F(Faults, SplitsOfDifferentShapesAreRefused) {
    make_data(dir_.path("other"), 60, 20, "16x16x1");
    fs::copy_file(dir_.path("other") + "/test-00000-of-00001.h5", test_, fs::copy_options::overwrite_existing);
    accept_into_manifest();
    train_refused(Exit::bad_input, {data_, "train images are 28x28x1", "test images are 16x16x1"});
}

TEST_F(Faults, UnknownNamesAreRefused) {
    const std::string plain = "--model mnist-linear --batch-size 20 ";
    train_refused(Exit::usage, {"--zebra", "see --help"}, plain + "--zebra 1");
    train_refused(Exit::usage, {"--epoch:", "did you mean --epochs?"}, plain + "--epoch 2");
    train_refused(Exit::usage, {"--momentun", "did you mean --momentum?"}, plain + "--momentun 0.9");
    write_file(dir_.path("my.cfg"), "# recipe\nepochs = 2\nmomentun = 0.9\n");
    train_refused(Exit::usage, {"my.cfg:3:", "no key 'momentun'", "did you mean momentum?"},
                  plain + "--config " + dir_.path("my.cfg"));
    train_refused(Exit::bad_input, {"none.cfg", "--config"}, plain + "--config " + dir_.path("none.cfg"));
    train_refused(Exit::bad_input, {"/dev/zero", "a recipe is lines of key = value"}, plain + "--config /dev/zero");
    train_refused(Exit::bad_input, {first_, "not a recipe"}, plain + "--config " + first_);
    train_refused(Exit::usage, {"mnist-liner", "mnist-linear"}, "--batch-size 20 --model mnist-liner");
    train_refused(Exit::usage, {"'stray'"}, plain + "stray");
    refused(Exit::usage, {"no command 'trian'", "train"}, "trian --data x");
    EXPECT_FALSE(fs::exists(output_)) << "a refused run must leave no folder";
}

TEST_F(Faults, BatchesThatCannotBeAreRefused) {
    train_refused(Exit::usage, {"--batch-per-rank", "--batch-size"},
                  "--model mnist-linear --batch-per-rank 4 --batch-size 20");
    train_refused(Exit::usage, {"--drop-last", "60 training images"},
                  "--drop-last --model mnist-linear --batch-size 61");
    const Finished f = launch(2, "train --model mnist-linear --batch-size 1 --data " + data_ + " --output " + output_);
    EXPECT_EQ("", refusal(f, Exit::usage, {"--batch-size 1", "2 ranks"}));
    EXPECT_FALSE(fs::exists(output_)) << "a refused run must leave no folder";
}

// Other users can write to the folder: Convoy does not write through their links.
TEST_F(Faults, LinksInTheRunFolder) {
    for (const char* file : {"lock", "metrics.jsonl"}) {
        fs::create_directories(output_);
        write_file(dir_.path("theirs"), "theirs");
        fs::create_symlink(dir_.path("theirs"), output_ + "/" + file);
        train_refused(Exit::io, {output_ + "/" + file, "symbolic link", "remove it"});
        EXPECT_EQ(read_file(dir_.path("theirs")), "theirs");
        fs::remove_all(output_);
    }
}

TEST_F(Faults, LossThatIsNotFinite) {
    train_refused(Exit::not_finite, {"loss", "step 2", "learning rate 1e+38", "the output of fc (linear)", "--lr"},
                  "--model mnist-linear --batch-size 20 --lr 1e38 --overwrite");
    EXPECT_EQ(column(output_, "train/step").size(), 2u) << "the rows up to the failure must be there";
    const Finished events = run("h5dump -d /events/kind " + output_ + "/metrics.h5");
    EXPECT_NE(events.out.find("\"error"), std::string::npos) << events.out;
    // This rate allows no learning, so the run still ends.
    train_refused(Exit::not_finite, {"loss", "learning rate"},
                  "--model mnist-linear --batch-size 20 --lr 1e38 --epochs 20 --on-nan skip --overwrite");
    const Finished back =
        launch(2, "train --model mnist-linear --batch-size 20 --lr 1e38 --on-nan rollback --overwrite --data " + data_ +
                      " --output " + output_);
    EXPECT_EQ("", failure(back));
    EXPECT_NE(back.err.find("going back to step 0"), std::string::npos) << back.err;
    record_fault("loss not finite",
                 "exit 4 naming step, rate and operation; or skipped; or back to a checkpoint at a lower rate",
                 "as promised", 5);
}

TEST_F(Faults, DeviceThatIsNotThereIsRefused) {
    if (convoy_alone("info").out.find("gpu          available") != std::string::npos)
        GTEST_SKIP() << "this machine has a GPU";
    train_refused(Exit::usage, {"--device cuda", "--device cpu"}, "--model mnist-linear --batch-size 20 --device cuda");
}

TEST_F(Faults, ModelFilesThatCannotBeUsedAreRefused) {
    ASSERT_EQ(
        "", failure(launch(1, "train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + output_)));
    const std::string file = output_ + "/model.h5", whole = read_file(file),
                      evaluate = "evaluate --data " + data_ + " --model-file ";
    const auto damaged = [&](const std::string& bytes, const std::vector<std::string>& words) {
        write_file(dir_.path("bad.h5"), bytes);
        refused(Exit::bad_input, words, evaluate + dir_.path("bad.h5"));
    };
    const std::vector<float> weight = tensors(file).at("fc.weight");
    std::string flipped = whole;
    flipped[whole.find(std::string(reinterpret_cast<const char*>(weight.data()), 64)) + 400] ^= 1;
    damaged(flipped, {"bad.h5", "fc.weight", "checksum"});
    damaged(whole.substr(0, whole.size() / 2), {"bad.h5"});
    damaged("plain text", {"bad.h5", "not an HDF5 file"});
    refused(Exit::bad_input, {"none.h5"}, evaluate + dir_.path("none.h5"));
    refused(Exit::bad_input, {first_, "not a model file"}, evaluate + first_);
    make_data(dir_.path("other"), 60, 20, "16x16x3");
    refused(Exit::bad_input, {file, "images of 28x28 pixels", dir_.path("other")},
            "evaluate --data " + dir_.path("other") + " --model-file " + file);
    refused(Exit::usage, {"--model-file", "required"}, "evaluate --data " + data_);
    refused(Exit::usage, {"--split valid", "test or train"}, evaluate + file + " --split valid");
}

TEST_F(Faults, OutputThatHoldsARunIsRefused) {
    const std::string again = "train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + output_;
    ASSERT_EQ("", failure(launch(2, again)));
    const std::string metrics = read_file(output_ + "/metrics.h5"), model = read_file(output_ + "/model.h5");
    refused(Exit::usage, {output_, "already holds a run", "--overwrite"}, again);
    EXPECT_TRUE(read_file(output_ + "/metrics.h5") == metrics && read_file(output_ + "/model.h5") == model)
        << "the earlier run was touched";
    EXPECT_EQ("", failure(launch(2, again + " --overwrite")));
    EXPECT_EQ(column(output_, "train/step").size(), 3u);
}

TEST_F(Faults, ProcessesThatDoNotSeeOneAnotherAreRefused) {
    const Finished f = run("PMI_SIZE=4 " + sibling("convoy") + " train --model mnist-linear --batch-size 20 --data " +
                           data_ + " --output " + output_);
    EXPECT_EQ("", refusal(f, Exit::usage, {"4 processes", "MPI sees only this one", "srun --mpi=pmix"}));
}

}  // namespace
}  // namespace convoy::test
