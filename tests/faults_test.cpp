// What a user can get wrong, on one rank and on two: one line on stderr that names the file or the option, the right exit
// code, and an end within the time limit.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cluster.h"
#include "data/digest.h"
#include "data/shard.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Faults : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 60, 20, "28x28x1"); }
    /// `convoy ARGUMENTS` must be refused alike on 1 and on 2 ranks.
    void refused(Exit code, const std::vector<std::string>& words, const std::string& arguments) {
        for (int ranks = 1; ranks <= 2; ++ranks)
            EXPECT_EQ("", refusal(launch(ranks, arguments), code, words)) << ranks << " ranks: " << arguments;
    }
    /// `convoy train` on data_ into output_ must be refused, and leave no model.
    void train_refused(Exit code, const std::vector<std::string>& words,
                       const std::string& options = "--model mnist-linear --batch-size 20") {
        refused(code, words, "train --data " + data_ + " --output " + output_ + " " + options);
        EXPECT_FALSE(fs::exists(output_ + "/model.h5"));
    }
    /// Makes the manifest agree with the changed files, so that only the damage itself is left to be noticed.
    void accept_into_manifest() {
        auto json = nlohmann::json::parse(read_file(data_ + "/manifest.json"));
        for (auto& shard : json["shards"]) {
            const std::string path = data_ + "/" + shard["file"].get<std::string>();
            shard["bytes"] = fs::file_size(path);
            shard["sha256"] = digest_of_file(Digest::Kind::sha256, path);
        }
        write_file(data_ + "/manifest.json", json.dump());
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), output_ = dir_.path("run");
    std::string first_ = data_ + "/train-00000-of-00002.h5", second_ = data_ + "/train-00001-of-00002.h5",
                test_ = data_ + "/test-00000-of-00001.h5";
};

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

TEST_F(Faults, MissingAndIncompleteData) {
    refused(Exit::bad_input, {dir_.path("nowhere"), "convoy convert"}, "train --batch-size 20 --data " + dir_.path("nowhere"));
    refused(Exit::usage, {"--data", "missing"}, "train --model mnist-linear --batch-size 20");
    write_file(second_, read_file(second_).substr(0, 20000));
    train_refused(Exit::bad_input, {second_, "truncated"});
    accept_into_manifest();
    train_refused(Exit::bad_input, {second_});
    fs::remove(second_);
    train_refused(Exit::bad_input, {second_, "missing"});
}

TEST_F(Faults, DamagedPixels) {
    flip_pixel(data_, "train", 3, first_);
    train_refused(Exit::bad_input, {first_, "/images does not match its checksum"});
}

// Rows 30 to 59 are the second rank's: the first rank must learn of it.
TEST_F(Faults, DamagedPixelsThatOnlyTheSecondRankReads) {
    flip_pixel(data_, "train", 45, second_);
    train_refused(Exit::bad_input, {second_, "/images does not match its checksum"});
}

TEST_F(Faults, LabelBeyondTheClasses) {
    {
        const h5::Handle file(H5Fopen(second_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        const int32_t label = 10;
        h5::write_rows(h5::open_dataset(file, "/labels", second_), H5T_NATIVE_INT32, 7, 1, &label, second_);
    }
    accept_into_manifest();
    train_refused(Exit::bad_input, {second_, "row 7 of /labels is 10", "0 to 9"});
}

TEST_F(Faults, ModelThatTakesOtherImages) {
    train_refused(Exit::bad_input, {"resnet18", "28x28x1", "--model"}, "--model resnet18 --batch-size 20");
}

TEST_F(Faults, SplitsOfDifferentShapes) {
    make_data(dir_.path("other"), 60, 20, "16x16x1");
    fs::copy_file(dir_.path("other") + "/test-00000-of-00001.h5", test_, fs::copy_options::overwrite_existing);
    accept_into_manifest();
    train_refused(Exit::bad_input, {data_, "train images are 28x28x1", "test images are 16x16x1"});
}

TEST_F(Faults, UnknownNames) {
    const std::string plain = "--model mnist-linear --batch-size 20 ";
    train_refused(Exit::usage, {"--zebra", "see --help"}, plain + "--zebra 1");
    train_refused(Exit::usage, {"--epoch:", "did you mean --epochs?"}, plain + "--epoch 2");
    train_refused(Exit::usage, {"--momentun", "did you mean --momentum?"}, plain + "--momentun 0.9");
    write_file(dir_.path("my.cfg"), "# recipe\nepochs = 2\nmomentun = 0.9\n");
    train_refused(Exit::usage, {"my.cfg:3:", "no key 'momentun'", "did you mean momentum?"}, plain + "--config " + dir_.path("my.cfg"));
    train_refused(Exit::bad_input, {"none.cfg", "--config"}, plain + "--config " + dir_.path("none.cfg"));
    train_refused(Exit::bad_input, {"/dev/zero", "a recipe is lines of key = value"}, plain + "--config /dev/zero");
    train_refused(Exit::bad_input, {first_, "not a recipe"}, plain + "--config " + first_);
    train_refused(Exit::usage, {"mnist-liner", "mnist-linear"}, "--batch-size 20 --model mnist-liner");
    train_refused(Exit::usage, {"'stray'"}, plain + "stray");
    refused(Exit::usage, {"no command 'trian'", "train"}, "trian --data x");
    EXPECT_FALSE(fs::exists(output_)) << "a refused run must leave no folder";
}

TEST_F(Faults, BatchesThatCannotBe) {
    train_refused(Exit::usage, {"--batch-per-rank", "--batch-size"}, "--model mnist-linear");
    train_refused(Exit::usage, {"--batch-per-rank", "--batch-size"}, "--model mnist-linear --batch-per-rank 4 --batch-size 20");
    train_refused(Exit::usage, {"--drop-last", "60 training images"}, "--drop-last --model mnist-linear --batch-size 61");
    const Finished f = launch(2, "train --model mnist-linear --batch-size 1 --data " + data_ + " --output " + output_);
    EXPECT_EQ("", refusal(f, Exit::usage, {"--batch-size 1", "2 ranks"}));
    EXPECT_FALSE(fs::exists(output_)) << "a refused run must leave no folder";
}

TEST_F(Faults, OutputUnderAFile) {
    write_file(dir_.path("file"), "not a folder");
    refused(Exit::io, {dir_.path("file") + "/run", "--output"},
            "train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + dir_.path("file") + "/run");
    EXPECT_EQ(read_file(dir_.path("file")), "not a folder");
    record_fault("output that cannot be made", "refused, exit 5", "as promised", 2);
}

TEST_F(Faults, OutputThatHoldsARun) {
    const std::string again = "train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + output_;
    ASSERT_EQ("", failure(launch(2, again)));
    const std::string metrics = read_file(output_ + "/metrics.h5"), model = read_file(output_ + "/model.h5");
    refused(Exit::usage, {output_, "already holds a run", "--overwrite"}, again);
    EXPECT_TRUE(read_file(output_ + "/metrics.h5") == metrics && read_file(output_ + "/model.h5") == model)
        << "the earlier run was touched";
    EXPECT_EQ("", failure(launch(2, again + " --overwrite")));
    EXPECT_EQ(column(output_, "train/step").size(), 3u);
}

/// An empty file system of `kib` KiB in `dir`, if this process may mount one.
class SmallDisk {
public:
    SmallDisk(const std::string& dir, int kib) : dir_(dir) {
        fs::create_directories(dir);
        mounted_ = run("mount -t tmpfs -o size=" + std::to_string(kib) + "k tmpfs " + dir).code == 0;
    }
    ~SmallDisk() {
        if (mounted_) run("umount " + dir_);
    }
    bool mounted() const { return mounted_; }

private:
    std::string dir_;
    bool mounted_ = false;
};

TEST_F(Faults, DiskThatIsTooSmall) {
    const SmallDisk disk(dir_.path("disk"), 128);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    const std::string train = "train --model mnist-linear --batch-size 2 --data " + data_ + " --output " + dir_.path("disk") + "/run";
    refused(Exit::io, {dir_.path("disk") + "/run", "MiB are free", "--keep"}, train);
    refused(Exit::io, {dir_.path("disk") + "/run", "MiB are free", "--keep"}, train + " --dry-run");
    // The rows of a million steps: eight columns of eight bytes, twice, and lines.
    const Finished f = launch(1, train + " --dry-run --epochs 40000 --max-steps 1000000");
    EXPECT_EQ("", refusal(f, Exit::io, {"MiB are free", "metrics"}));
    double needed = 0;
    const size_t at = f.err.find("needs ");
    ASSERT_NE(at, std::string::npos) << f.err;
    ASSERT_EQ(std::sscanf(f.err.c_str() + at, "needs %lf MiB", &needed), 1) << f.err;
    EXPECT_GT(needed, 2 * 64e6 / (1 << 20));
    EXPECT_LT(needed, 6 * 64e6 / (1 << 20));
    EXPECT_FALSE(fs::exists(dir_.path("disk") + "/run")) << "a refused run must leave no folder";
    record_fault("less room than the planned checkpoints need", "refused before the first step, exit 5", "as promised", 5);
}

TEST_F(Faults, OutputOnAReadOnlyFileSystem) {
    const SmallDisk disk(dir_.path("disk"), 4 << 10);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    ASSERT_EQ(run("mount -o remount,ro " + dir_.path("disk")).code, 0);
    refused(Exit::io, {dir_.path("disk"), "Read-only file system", "--output"},
            "train --model mnist-linear --batch-size 2 --data " + data_ + " --output " + dir_.path("disk") + "/run");
    record_fault("output on a read-only file system", "refused before the first step, exit 5", "as promised", 2);
}

// Rows do not fit any more: with --strict-io that is the end; else training goes on, and the end says what is missing.
TEST_F(Faults, DiskThatFillsUp) {
    const std::string run = dir_.path("disk") + "/run";
    const std::string train = "train --model mnist-linear --batch-size 2 --epochs 600 --checkpoint-every none --log-interval 1 --data " + data_ +
                              " --output " + run + " --overwrite";
    const SmallDisk disk(dir_.path("disk"), 16 << 10);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    // Nothing is left as soon as there is a checkpoint, and so rows in metrics.h5.
    const auto on_a_disk_that_fills = [&](const std::string& command) {
        fs::remove_all(run);
        return test::run("( " + command + " ) & job=$!; for i in $(seq 1000); do ls " + run + "/checkpoints/*.h5 >/dev/null 2>&1 && break; sleep 0.01; done\n" +
                         "cat /dev/zero >" + dir_.path("disk") + "/filler 2>/dev/null; wait $job; code=$?; rm " + dir_.path("disk") + "/filler; exit $code");
    };
    EXPECT_EQ("", refusal(on_a_disk_that_fills(launch_command(2, train + " --strict-io")), Exit::io, {run, "No space left"}));
    const Finished f = on_a_disk_that_fills(launch_command(2, train, 180));
    EXPECT_EQ(f.code, int(Exit::io)) << f.err;
    EXPECT_EQ(count(f.err, "No space left on device; check the folder, its permissions and free space; training goes on"), 1) << f.err;
    EXPECT_NE(f.out.find("epoch 600/600"), std::string::npos) << "the training must go on";
    EXPECT_FALSE(column(run, "train/step").empty()) << "the metrics of before must stay readable";
    record_fault("disk full at the metrics", "one warning, trained to the end, old metrics readable, exit 5; `--strict-io`: ends at once", "as promised", 2);
}

// Whoever fills the disk makes room again: every row is in both files in the end.
TEST_F(Faults, DiskThatIsFullForAMoment) {
    const SmallDisk disk(dir_.path("disk"), 32 << 10);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    const int fills = long_form() ? 10 : 2;
    for (int fill = 0; fill < fills; ++fill) {
        const std::string run = dir_.path("disk") + "/run", filler = dir_.path("disk") + "/filler";
        const std::string train = "train --model mnist-conv --threads 1 --batch-size 20 --epochs 1000 --eval-every 0 --checkpoint-every none "
                                  "--data " + data_ + " --output " + run;
        fs::remove_all(run);
        const Finished f = test::run("( " + launch_command(1, train, 150) + " ) & job=$!\n" +
                                     "for i in $(seq 500); do grep -q '\"train\"' " + run + "/metrics.jsonl 2>/dev/null && break; sleep 0.02; done\n" +
                                     "cat /dev/zero >" + filler + " 2>/dev/null; sleep 0.5; rm " + filler + "; wait $job");
        ASSERT_EQ(f.code, 0) << f.err;
        EXPECT_EQ(count(f.err, "cannot be written: No space left on device"), 1) << f.err;
        EXPECT_EQ(column(run, "train/step").size(), 3000u);
        EXPECT_EQ(count(read_file(run + "/metrics.jsonl"), "\"kind\":\"train\""), 3000);
        EXPECT_NE(test::run("h5dump -d /events/message " + run + "/metrics.h5").out.find("No space left"), std::string::npos);
    }
    record_fault("disk full for half a second", "a warning and an event; every row is in both metric files, exit 0", "as promised", fills);
}

TEST_F(Faults, FullDiskAtACheckpoint) {
    make_data(dir_.path("colour"), 8, 2, "8x8x3");
    const std::string run = dir_.path("disk") + "/run";
    const std::string train = "train --model resnet18 --batch-size 4 --data " + dir_.path("colour") + " --output " + run + " --overwrite --keep 1 ";
    const SmallDisk disk(dir_.path("disk"), 400 << 10);  // room for a model of 43 MiB and its checkpoints
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    // As soon as there are metrics, all but a little is taken away.
    const auto on_a_disk_that_fills = [&](const std::string& command) {
        fs::remove_all(run);
        const Finished f = test::run("( " + command + " ) & job=$!; for i in $(seq 1000); do [ -e " + run + "/metrics.h5 ] && break; sleep 0.01; done\n" +
                                     "fallocate -l 396M " + dir_.path("disk") + "/filler || exit 98; wait $job; code=$?; rm " + dir_.path("disk") + "/filler; exit $code");
        EXPECT_EQ(f.code, int(Exit::io)) << f.out << f.err;
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run))
            EXPECT_NE(entry.path().extension(), ".partial") << "half a file: " << entry.path();
        EXPECT_FALSE(column(run, "train/step").empty()) << "the metrics must survive";
        return f.err;
    };
    const std::string lost = on_a_disk_that_fills(launch_command(2, train + "--epochs 10 --checkpoint-every 3"));
    EXPECT_NE(lost.find("warning: no checkpoint: " + run + "/checkpoints/step-"), std::string::npos) << lost;
    EXPECT_NE(lost.find("convoy: " + run + "/model.h5"), std::string::npos) << lost;
    // Asked to stop, with nowhere to put the checkpoint: that must not look like a success.
    const std::string stopped = on_a_disk_that_fills(launch_command(1, train + "--epochs 10000 --checkpoint-every none --eval-every 0 --time-limit 8s"));
    EXPECT_NE(stopped.find("the checkpoint could not be written"), std::string::npos) << stopped;
    record_fault("disk full in the middle of a checkpoint", "a warning, no half file, metrics intact, exit 5", "as promised", 2);
}

// A folder that others can write to: what they put there is not written through.
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

TEST_F(Faults, ProcessesThatDoNotSeeOneAnother) {
    const Finished f = run("PMI_SIZE=4 " + sibling("convoy") + " train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + output_);
    EXPECT_EQ("", refusal(f, Exit::usage, {"4 processes", "MPI sees only this one", "srun --mpi=pmix"}));
}

TEST_F(Faults, RunFolderThatVanishes) {
    const std::string run = dir_.path("gone");
    const Finished f = test::run("(" + launch_command(2, "train --model mnist-linear --batch-size 20 --epochs 400 --log-interval 1 --data " + data_ + " --output " + run) +
                                 ") & job=$!; for i in $(seq 500); do grep -q '\"train\"' " + run + "/metrics.jsonl 2>/dev/null && break; sleep 0.02; done; rm -rf " + run + "; wait $job");
    EXPECT_NE(f.out.find("epoch 400/400"), std::string::npos) << "the training must go on: " << f.err;
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(column(run, "train/step").size(), 1200u) << "the folder is made again for what is written in the end";
    record_fault("run folder removed", "training goes on, the folder is made again, exit 0", "as promised, no row lost", 1);
}

TEST_F(Faults, LossThatIsNotFinite) {
    train_refused(Exit::not_finite, {"loss", "step 2", "learning rate 1e+38", "the output of fc (linear)", "--lr"},
                  "--model mnist-linear --batch-size 20 --lr 1e38 --overwrite");
    EXPECT_EQ(column(output_, "train/step").size(), 2u) << "the rows up to the failure must be there";
    const Finished events = run("h5dump -d /events/kind " + output_ + "/metrics.h5");
    EXPECT_NE(events.out.find("\"error"), std::string::npos) << events.out;
    // Nothing can be learned with this rate, so it ends all the same.
    train_refused(Exit::not_finite, {"loss", "learning rate"}, "--model mnist-linear --batch-size 20 --lr 1e38 --epochs 20 --on-nan skip --overwrite");
    const Finished back = launch(2, "train --model mnist-linear --batch-size 20 --lr 1e38 --on-nan rollback --overwrite --data " + data_ + " --output " + output_);
    EXPECT_EQ("", failure(back));
    EXPECT_NE(back.err.find("going back to step 0"), std::string::npos) << back.err;
    record_fault("loss not finite", "exit 4 naming step, rate and operation; or skipped; or back to a checkpoint at a lower rate", "as promised", 5);
}

TEST_F(Faults, DeviceThatIsNotThere) {
    if (convoy_alone("info").out.find("gpu          available") != std::string::npos) GTEST_SKIP() << "this machine has a GPU";
    train_refused(Exit::usage, {"--device cuda", "--device cpu"}, "--model mnist-linear --batch-size 20 --device cuda");
}

TEST_F(Faults, ModelFilesThatCannotBeUsed) {
    ASSERT_EQ("", failure(launch(1, "train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + output_)));
    const std::string file = output_ + "/model.h5", whole = read_file(file), evaluate = "evaluate --data " + data_ + " --model-file ";
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
    refused(Exit::bad_input, {file, "other images", dir_.path("other")}, "evaluate --data " + dir_.path("other") + " --model-file " + file);
    refused(Exit::usage, {"--model-file", "required"}, "evaluate --data " + data_);
    refused(Exit::bad_input, {data_, "valid"}, evaluate + file + " --split valid");
}

}  // namespace
}  // namespace convoy::test
