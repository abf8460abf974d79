// Runs whose disk is full, small, read-only or gone.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/shard.h"
#include "tests/faults/faults.h"

namespace convoy::test {
namespace {

using DiskFaults = FaultsTest;

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

TEST_F(DiskFaults, DiskThatIsTooSmallIsRefusedBeforeTheFirstStep) {
    const SmallDisk disk(dir_.path("disk"), 128);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    const std::string train =
        "train --model mnist-linear --batch-size 2 --data " + data_ + " --output " + dir_.path("disk") + "/run";
    refused(Exit::io, {dir_.path("disk") + "/run", "MiB are free", "--keep"}, train);
    refused(Exit::io, {dir_.path("disk") + "/run", "MiB are free", "--keep"}, train + " --dry-run");
    // A million steps have rows of nine columns of eight bytes, twice, and lines.
    const Finished f = launch(1, train + " --dry-run --epochs 40000 --max-steps 1000000");
    EXPECT_EQ("", refusal(f, Exit::io, {"MiB are free", "metrics"}));
    double needed = 0;
    const size_t at = f.err.find("needs ");
    ASSERT_NE(at, std::string::npos) << f.err;
    ASSERT_EQ(std::sscanf(f.err.c_str() + at, "needs %lf MiB", &needed), 1) << f.err;
    EXPECT_GT(needed, 2 * 72e6 / (1 << 20));
    EXPECT_LT(needed, 6 * 72e6 / (1 << 20));
    EXPECT_FALSE(fs::exists(dir_.path("disk") + "/run")) << "a refused run must leave no folder";
    record_fault("less room than the planned checkpoints need", "refused before the first step, exit 5", "as promised",
                 5);
}

TEST_F(DiskFaults, OutputOnAReadOnlyFileSystemIsRefused) {
    const SmallDisk disk(dir_.path("disk"), 4 << 10);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    ASSERT_EQ(run("mount -o remount,ro " + dir_.path("disk")).code, 0);
    refused(Exit::io, {dir_.path("disk"), "Read-only file system", "--output"},
            "train --model mnist-linear --batch-size 2 --data " + data_ + " --output " + dir_.path("disk") + "/run");
    record_fault("output on a read-only file system", "refused before the first step, exit 5", "as promised", 2);
}

// Rows no longer fit. With --strict-io the run ends; otherwise training continues, and its end
// reports the missing rows.
TEST_F(DiskFaults, DiskThatFillsUpCostsNoTraining) {
    const std::string run = dir_.path("disk") + "/run";
    const std::string train =
        "train --model mnist-linear --batch-size 2 --epochs 600 --checkpoint-every none --log-interval 1 --data " +
        data_ + " --output " + run + " --overwrite";
    const SmallDisk disk(dir_.path("disk"), 16 << 10);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    // The disk is full as soon as there is a model, and therefore rows in metrics.h5.
    const auto on_a_disk_that_fills = [&](const std::string& command) {
        fs::remove_all(run);
        return test::run("( " + command + " ) & job=$!; for i in $(seq 1000); do ls " + run +
                         "/model-best.h5 >/dev/null 2>&1 && break; sleep 0.01; done\n" + "cat /dev/zero >" +
                         dir_.path("disk") + "/filler 2>/dev/null; wait $job; code=$?; rm " + dir_.path("disk") +
                         "/filler; exit $code");
    };
    EXPECT_EQ(
        "", refusal(on_a_disk_that_fills(launch_command(2, train + " --strict-io")), Exit::io, {run, "No space left"}));
    const Finished f = on_a_disk_that_fills(launch_command(2, train, 180));
    EXPECT_EQ(f.code, int(Exit::io)) << f.err;
    const std::string full = "cannot be written: No space left on device; check the folder, its permissions and free";
    EXPECT_EQ(count(f.err, full + " space; training continues"), 1) << f.err;
    EXPECT_NE(f.out.find("epoch 600/600"), std::string::npos) << "the training must go on";
    EXPECT_FALSE(column(run, "train/step").empty()) << "the metrics of before must stay readable";
    record_fault("disk full at the metrics",
                 "one warning, trained to the end, old metrics readable, exit 5; `--strict-io`: ends at once",
                 "as promised", 2);
}

// The disk is full for a moment and then has room again: in the end every row is in both files.
TEST_F(DiskFaults, DiskThatIsFullForAMomentCostsNoRow) {
    const SmallDisk disk(dir_.path("disk"), 32 << 10);
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    const int fills = long_form() ? 10 : 2;
    for (int fill = 0; fill < fills; ++fill) {
        const std::string run = dir_.path("disk") + "/run", filler = dir_.path("disk") + "/filler";
        const std::string train =
            "train --model mnist-conv --threads 1 --batch-size 20 --epochs 1000 --eval-every 0 --checkpoint-every none "
            "--data " +
            data_ + " --output " + run;
        fs::remove_all(run);
        const Finished f = test::run("( " + launch_command(1, train, 150) + " ) & job=$!\n" +
                                     "for i in $(seq 500); do grep -q '\"train\"' " + run +
                                     "/metrics.jsonl 2>/dev/null && break; sleep 0.02; done\n" + "cat /dev/zero >" +
                                     filler + " 2>/dev/null; sleep 0.5; rm " + filler + "; wait $job");
        ASSERT_EQ(f.code, 0) << f.err;
        EXPECT_EQ(count(f.err, "cannot be written: No space left on device"), 1) << f.err;
        EXPECT_EQ(column(run, "train/step").size(), 3000u);
        EXPECT_EQ(count(read_file(run + "/metrics.jsonl"), "\"kind\":\"train\""), 3000);
        EXPECT_NE(test::run("h5dump -d /events/message " + run + "/metrics.h5").out.find("No space left"),
                  std::string::npos);
    }
    record_fault("disk full for half a second", "a warning and an event; every row is in both metric files, exit 0",
                 "as promised", fills);
}

TEST_F(DiskFaults, FullDiskAtACheckpointLeavesNoHalfFile) {
    make_data(dir_.path("colour"), 8, 2, "8x8x3");
    const std::string run = dir_.path("disk") + "/run";
    const std::string train = "train --model resnet18 --batch-size 4 --data " + dir_.path("colour") + " --output " +
                              run + " --overwrite --keep 1 ";
    const SmallDisk disk(dir_.path("disk"), 400 << 10);  // fits a model of 43 MiB and its checkpoints
    if (!disk.mounted()) GTEST_SKIP() << "no permission to mount a small file system";
    // Fills the disk up to 4 MiB once there are metrics. A checkpoint may be growing at that
    // moment, so the shell tries again until it succeeds.
    const auto on_a_disk_that_fills = [&](const std::string& command) {
        fs::remove_all(run);
        const std::string folder = dir_.path("disk");
        const Finished f = test::run(
            "( " + command + " ) & job=$!; for i in $(seq 1000); do [ -e " + run +
            "/metrics.h5 ] && break; sleep 0.01; done\n" + "until fallocate -l $(($(df --output=avail -B1 " + folder +
            " | tail -n1) - (4 << 20))) " + folder + "/filler 2>/dev/null; do kill -0 $job || exit 98; done\n" +
            "wait $job; code=$?; rm " + folder + "/filler; exit $code");
        EXPECT_EQ(f.code, int(Exit::io)) << f.out << f.err;
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run))
            EXPECT_NE(entry.path().extension(), ".partial") << "half a file: " << entry.path();
        EXPECT_FALSE(column(run, "train/step").empty()) << "the metrics must survive";
        return f.err;
    };
    const std::string lost = on_a_disk_that_fills(launch_command(2, train + "--epochs 12 --checkpoint-every 3", 200));
    EXPECT_NE(lost.find("warning: no checkpoint: " + run + "/checkpoints/step-"), std::string::npos) << lost;
    EXPECT_NE(lost.find("convoy: " + run + "/model.h5"), std::string::npos) << lost;
    // The run is asked to stop, but cannot write the checkpoint: it must not report success.
    const std::string stopped = on_a_disk_that_fills(
        launch_command(1, train + "--epochs 10000 --checkpoint-every none --eval-every 0 --time-limit 10s"));
    EXPECT_NE(stopped.find("the checkpoint could not be written"), std::string::npos) << stopped;
    record_fault("disk full in the middle of a checkpoint", "a warning, no half file, metrics intact, exit 5",
                 "as promised", 2);
}

TEST_F(DiskFaults, OutputUnderAFileIsRefused) {
    write_file(dir_.path("file"), "not a folder");
    refused(Exit::io, {dir_.path("file") + "/run", "--output"},
            "train --model mnist-linear --batch-size 20 --data " + data_ + " --output " + dir_.path("file") + "/run");
    EXPECT_EQ(read_file(dir_.path("file")), "not a folder");
    record_fault("output that cannot be made", "refused, exit 5", "as promised", 2);
}

TEST_F(DiskFaults, RunFolderThatVanishesIsMadeAgain) {
    const std::string run = dir_.path("gone");
    const Finished f =
        test::run("(" +
                  launch_command(2, "train --model mnist-linear --batch-size 20 --epochs 400 --log-interval 1 --data " +
                                        data_ + " --output " + run) +
                  ") & job=$!; for i in $(seq 500); do grep -q '\"train\"' " + run +
                  "/metrics.jsonl 2>/dev/null && break; sleep 0.02; done; rm -rf " + run + "; wait $job");
    EXPECT_NE(f.out.find("epoch 400/400"), std::string::npos) << "the training must go on: " << f.err;
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(column(run, "train/step").size(), 1200u) << "the folder is made again for what is written in the end";
    record_fault("run folder removed", "training continues, the folder is made again, exit 0",
                 "as promised, no row lost", 1);
}

}  // namespace
}  // namespace convoy::test
