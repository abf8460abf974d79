// Messages that a beginner sees in the first hour: each names the next thing to type.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/train_options.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {

namespace fs = std::filesystem;

class Messages : public testing::Test {
protected:
    std::string data(const std::string& size = "28x28x1") {
        make_data(data_, 60, 20, size, 2);
        return data_;
    }
    std::string train(const std::string& more) const {
        return "train --model mnist-linear --batch-size 20 --output " + dir_.path("run") + " " + more;
    }
    /// Returns how a refusal of bad input differs from one line that holds `words`; empty if it
    /// does not differ.
    std::string refused(const std::string& arguments, const std::vector<std::string>& words,
                        Exit code = Exit::bad_input) const {
        return refusal(convoy_alone(arguments), code, words);
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), photos_ = dir_.path("photos");
};

// The command in the message is run unchanged; after it the training works.
TEST_F(Messages, AFolderOfPicturesIsConvertedByTheCommandThatIsNamed) {
    make_image_folder(photos_, 2, 12);
    const Finished f = convoy_alone(train("--data " + photos_));
    ASSERT_EQ("", refusal(f, Exit::bad_input, {photos_ + ": holds pictures"}));
    const size_t begin = f.err.find("convoy convert"), end = f.err.find(", then give ");
    ASSERT_NE(end, std::string::npos) << f.err;
    const Finished made = convoy_alone(f.err.substr(begin + 7, end - begin - 7));
    ASSERT_EQ("", failure(made));
    const std::string shards = photos_ + "-shards";
    EXPECT_NE(f.err.find("--data " + shards), std::string::npos) << f.err;
    EXPECT_EQ("", failure(convoy_alone(train("--model resnet18 --image-size 28x28 --dry-run --data " + shards))));
    for (const std::string& command : {"verify " + photos_, train("--data " + photos_)})
        EXPECT_EQ("", refused(command, {"that is there: --data " + shards})) << "it is made already";
}

TEST_F(Messages, AFolderThatHoldsSomethingElseIsNamed) {
    data();
    make_image_folder(photos_ + "/train", 2, 2);
    make_image_folder(photos_ + "/val", 2, 2);
    EXPECT_EQ("", refused(train("--data " + photos_),
                          {"imagefolder --from " + photos_ + "/train --val " + photos_ + "/val --to"}));
    EXPECT_EQ("", refused(train("--data " + dir_.path()), {"give --data " + data_}));
    EXPECT_EQ("", refused(train("--data " + data_ + "/train-00000-of-00002.h5"), {"give its folder: --data " + data_}));
    fs::create_directory(dir_.path("mnist"));
    write_file(dir_.path("mnist/train-images-idx3-ubyte.gz"), "");
    EXPECT_EQ("",
              refused(train("--data " + dir_.path("mnist")), {"convoy convert mnist --from " + dir_.path("mnist")}));
    write_file(dir_.path("photos.tar"), "");
    EXPECT_EQ("",
              refused(train("--data " + dir_.path("photos.tar")), {"is an archive", "--to " + photos_ + "-shards"}));
    ASSERT_EQ("", failure(convoy_alone(train("--data " + data_))));
    EXPECT_EQ("",
              refused("evaluate --model-file " + dir_.path("run") + " --data " + dir_.path("run"), {"holds a run"}));
    fs::create_directory(dir_.path("empty"));
    EXPECT_EQ("", refused(train("--data " + dir_.path("empty")), {"--to " + dir_.path("empty")}));
}

TEST_F(Messages, APermissionThatIsDeniedNamesTheOwnerAndTheMode) {
    if (run("test $(id -u) = 0 && setpriv --version").code != 0) GTEST_SKIP() << "needs root and setpriv";
    data();
    ASSERT_EQ(0, ::chmod(dir_.path().c_str(), 0755));
    const auto denied = [&](const std::string& file, int mode) {
        EXPECT_EQ(0, ::chmod(file.c_str(), mode_t(mode)));
        const Finished f = run(with_limit("setpriv --reuid=65534 --clear-groups env HOME=/nonexistent " +
                                              sibling("convoy") + " " + train("--dry-run --data " + data_),
                                          60));
        EXPECT_EQ(0, ::chmod(file.c_str(), 0755));
        return refusal(f, Exit::bad_input, {file + " belongs to root, with mode 0", "Permission denied"});
    };
    EXPECT_EQ("", denied(data_, 0700));
    EXPECT_EQ("", denied(data_ + "/train-00001-of-00002.h5", 0600));
    EXPECT_EQ("", denied(data_ + "/manifest.json", 0600));
}

TEST_F(Messages, ANameThatIsAlmostRightIsNamed) {
    EXPECT_EQ("", refused("trian --epochs 3", {"did you mean train?"}, Exit::usage));
    EXPECT_EQ("", refused("Evaluate", {"did you mean evaluate?"}, Exit::usage));
    data();
    for (const auto& [wrong, words] : {std::pair{"--model ResNet18", "did you mean resnet18?"},
                                       {"--optimizer SGD", "did you mean sgd?"},
                                       {"--lr-schedule cosin", "did you mean cosine?"},
                                       {"--device gpu", "choose auto, cuda or cpu"},
                                       {"--Epochs 3", "did you mean --epochs?"},
                                       {"--bf16", "--precision bf16"},
                                       {"--fp16", "--precision f16"},
                                       {"--amp", "--precision bf16"},
                                       {"--image-size 64x32", "one side"}})
        EXPECT_EQ("", refused(train("--data " + data_ + " " + wrong), {words}, Exit::usage)) << wrong;
}

TEST_F(Messages, SquaresMayBeWrittenWithBothSides) {
    const std::vector<std::string> rest = {"--data", "x", "--batch-size", "8"};
    std::vector<std::string> args = {"--image-size", "64x64"};
    args.insert(args.end(), rest.begin(), rest.end());
    EXPECT_EQ(parse_train_options(args).options.image_size.side, 64);
}

TEST_F(Messages, OptionsThatDoLittleAreWarnedOf) {
    data();
    const auto warning = [&](const std::string& more) {
        const Finished f = convoy_alone(train("--dry-run --data " + data_ + " " + more));
        EXPECT_EQ("", failure(f)) << more;
        return f.err;
    };
    const auto expect = [&](const std::string& more, const std::vector<std::string>& words) {
        const std::string said = warning(more);
        EXPECT_EQ(count(said, "\n"), 1) << said;
        for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << word << ": " << said;
    };
    expect("--batch-size 61", {"warning: a batch of 61 is more than the 60 training images", "--batch-size"});
    // 3 of 5 epochs of the warm-up
    expect("--warmup-epochs 5 --epochs 3 --lr 0.5", {"--warmup-epochs 5", "ends after 3 epochs", "0.3 instead of 0.5"});
    expect("--lr-schedule step --epochs 30", {"--lr-step-epochs 30", "never drops"});
    expect("--lr-schedule multistep --lr-milestones 2,8 --epochs 8", {"epoch 8 is not reached"});
    EXPECT_EQ(warning("--batch-size 60 --warmup-epochs 3 --epochs 3"), "");
    EXPECT_EQ(warning("--lr-schedule step --epochs 31"), "");
    EXPECT_EQ(warning("--lr-schedule multistep --lr-milestones 2,8 --epochs 9"), "");
}

TEST_F(Messages, TheFolderOfARunStandsForItsBestModel) {
    data();
    ASSERT_EQ("", failure(convoy_alone(train("--data " + data_ + " --epochs 1 --epochs 2"))));
    const std::string run = dir_.path("run"), evaluate = "evaluate --data " + data_ + " --model-file " + run;
    const Finished best = convoy_alone(evaluate + "/model-best.h5"), folder = convoy_alone(evaluate);
    ASSERT_EQ("", failure(folder));
    EXPECT_EQ(score_of(folder.out).loss, score_of(best.out).loss);
    EXPECT_EQ(folder.out.substr(0, run.size() + 14), run + "/model-best.h5");
    EXPECT_NE(folder.err.find(run + "/model-best.h5, of the run in " + run), std::string::npos) << folder.err;
    fs::remove(run + "/model-best.h5");
    EXPECT_NE(convoy_alone(evaluate).out.find(run + "/model.h5 on "), std::string::npos);
    EXPECT_EQ("", refused("evaluate --data " + data_ + " --model-file " + data_, {data_, "model-best.h5"}));
}

TEST_F(Messages, VerifyListsEveryFileThatIsDamaged) {
    data();
    const std::vector<std::string> damaged = {"train-00000-of-00002.h5", "train-00001-of-00002.h5",
                                              "test-00000-of-00001.h5"};
    for (const std::string& name : damaged) {
        std::string bytes = read_file(data_ + "/" + name);
        bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 1);
        write_file(data_ + "/" + name, bytes);
    }
    write_file(data_ + "/notes.txt", "");
    const Finished f = convoy_alone("verify " + data_);
    EXPECT_EQ(f.code, int(Exit::bad_input));
    for (const std::string& name : damaged) EXPECT_EQ(count(f.err, "convoy: " + data_ + "/" + name + ": "), 1) << f.err;
    EXPECT_EQ(count(f.err, "notes.txt: is not in manifest.json"), 1) << f.err;
    EXPECT_EQ(count(f.err, "\n"), 5) << f.err;
    EXPECT_NE(f.err.find("has the 4 problems above\n"), std::string::npos) << f.err;
}

// A file of 4 TiB that takes no room on the disk would be read for an hour.
TEST_F(Messages, VerifyComparesSizesBeforeItReads) {
    data();
    const std::string shard = data_ + "/train-00001-of-00002.h5";
    std::filesystem::resize_file(shard, uintmax_t(4) << 40);
    const Finished f = run(with_limit(sibling("convoy") + " verify " + data_, 10));
    EXPECT_EQ("", refusal(f, Exit::bad_input, {shard, "has 4398046511104 bytes, manifest.json says"}));
    record_fault("a shard of 4 TiB without content", "verify: one line, exit 3, before it is read", "as promised", 1);
}

// They are not compared with one another, which would take ten times as long as is allowed here.
TEST_F(Messages, VerifyNamesThousandsOfFiles) {
    data();
    ASSERT_EQ("", failure(run("cd " + data_ + " && seq -f extra%g 20000 | xargs touch")));
    const Finished f = run(with_limit(sibling("convoy") + " verify " + data_, 5));
    EXPECT_EQ(f.code, int(Exit::bad_input));
    EXPECT_EQ(count(f.err, "\n"), 20001);
    EXPECT_NE(f.err.find("has the 20000 problems above\n"), std::string::npos);
}

// Each advice is followed until the training would start.
TEST_F(Messages, ARecipesWayToCropCanBeSwitchedOff) {
    data("32x32x3");
    const std::string resized = "train --config input/recipes/resnet50.cfg --dry-run --image-size 64 --data " + data_;
    EXPECT_EQ("", refused(resized, {"--crop-pad 0", "recipe"}, Exit::usage));
    EXPECT_EQ("", refused(resized + " --random-resized-crop", {"--crop-pad 0", "recipe"}, Exit::usage));
    EXPECT_EQ("", failure(convoy_alone(resized + " --crop-pad 0")));
    EXPECT_EQ("", failure(convoy_alone(resized + " --random-resized-crop --crop-pad 0")));
}

}  // namespace
}  // namespace convoy::test
