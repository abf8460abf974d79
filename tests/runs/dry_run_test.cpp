// convoy train --dry-run: refuses what the training refuses, with its exit code and message, reads
// no image, and leaves every file unchanged.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/shard.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class DryRun : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 60, 20, "28x28x1"); }

    /// Returns a training that works, with `more` options, which override the usual ones.
    std::string arguments(const std::string& more) const {
        std::string all = "train " + more;
        for (const auto& [option, usual] : {std::pair<std::string, std::string>{"--data", data_},
                                            {"--model", "mnist-linear"},
                                            {"--batch-size", "20"},
                                            {"--epochs", "2"},
                                            {"--output", output_}})
            if (more.find(option + " ") == std::string::npos) all += " " + option + " " + usual;
        return all;
    }
    /// Returns the one line that a refused command prints.
    static std::string line(const Finished& f) {
        const size_t at = f.err.find("convoy:");
        return at == std::string::npos ? "" : f.err.substr(at, f.err.find('\n', at) - at);
    }
    /// Expects that dry run and training are refused alike, on 1 rank and on 2, and that the dry
    /// run changes nothing.
    void refused_alike(Exit code, const std::vector<std::string>& words, const std::string& more) {
        for (int ranks = 1; ranks <= 2; ++ranks) {
            const std::string before = listing();
            const Finished dry = launch(ranks, arguments(more + " --dry-run"));
            EXPECT_EQ("", refusal(dry, code, words)) << ranks << " ranks: " << more;
            EXPECT_EQ(listing(), before) << more;
            EXPECT_EQ(line(dry), line(launch(ranks, arguments(more)))) << more;
        }
    }
    /// Returns every folder, and every file with its size and time.
    std::string listing() const {
        return run("find " + dir_.path() + " -type d -printf '%p\\n' -o -printf '%p %s %T@\\n' | sort").out;
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), output_ = dir_.path("run"), large_ = dir_.path("large");
};

TEST_F(DryRun, RefusesAFolderThatHoldsARunOrAnotherRunHas) {
    ASSERT_EQ("", failure(launch(1, arguments(""))));
    fs::create_directories(output_ + "/stalled");  // a training removes it
    refused_alike(Exit::usage, {output_, "already holds a run", "--overwrite"}, "");
    const std::string before = listing();
    for (const char* more : {"--dry-run --overwrite", "--dry-run --resume auto --epochs 3"})
        EXPECT_EQ("", failure(launch(1, arguments(more)))) << more;
    EXPECT_EQ(listing(), before) << "nothing is overwritten, locked or tidied up";

    const int lock = ::open((output_ + "/lock").c_str(), O_RDWR);
    struct flock whole{};
    whole.l_type = F_WRLCK;
    ASSERT_EQ(::fcntl(lock, F_OFD_SETLK, &whole), 0);
    refused_alike(Exit::usage, {output_, "another run"}, "--overwrite");
    ::close(lock);
}

TEST_F(DryRun, RefusesFoldersThatCannotBeMade) {
    write_file(dir_.path("file"), "");
    for (const std::string& place : {dir_.path("file"), dir_.path("file") + "/below"})
        refused_alike(Exit::io, {place, "choose another --output"}, "--output " + place);
    // Root may write to /proc, but cannot make a folder there; other users get a message that they
    // may not write to it.
    const std::string named = geteuid() == 0 ? "/proc/none" : "/proc: ";
    refused_alike(Exit::io, {named, "choose another --output"}, "--output /proc/none");
}

TEST_F(DryRun, RefusesWhatCannotBeResumed) {
    refused_alike(Exit::bad_input, {dir_.path("foo.pth")}, "--resume " + dir_.path("foo.pth"));
    write_file(dir_.path("foo.pth"), "PK no checkpoint");
    refused_alike(Exit::bad_input, {dir_.path("foo.pth")}, "--resume " + dir_.path("foo.pth"));
    const std::string other = dir_.path("other");
    ASSERT_EQ("", failure(launch(1, arguments("--output " + other))));
    const std::string checkpoint = other + "/checkpoints/step-000000000006.h5";
    refused_alike(Exit::usage, {checkpoint, "seed was 1", "this run has 2"}, "--seed 2 --resume " + checkpoint);
    refused_alike(Exit::usage, {checkpoint, "after step 6", "ends at step 3"}, "--epochs 1 --resume " + checkpoint);
    refused_alike(Exit::bad_input, {other + "/model.h5", "not a checkpoint"}, "--resume " + other + "/model.h5");
    fs::remove_all(output_);  // files of the refused trainings
    EXPECT_EQ("", failure(launch(2, arguments("--dry-run --resume " + checkpoint))));
    EXPECT_FALSE(fs::exists(output_));
    for (const auto& entry : fs::directory_iterator(other + "/checkpoints")) write_file(entry.path(), "damaged");
    refused_alike(Exit::bad_input, {other, "none of the"}, "--resume auto --output " + other);
}

TEST_F(DryRun, RefusesWhatDoesNotFitIntoMemory) {
    make_data(large_, 3000, 20, "32x32x3");
    const std::string enormous =
        "train --dry-run --data " + large_ + " --model pyramidnet --output " + output_ + " --batch-size 200000";
    for (int ranks = 1; ranks <= 2; ++ranks) {
        const Finished f = launch(ranks, enormous, 120);
        EXPECT_EQ("", refusal(f, Exit::out_of_memory, {"out of memory", "MiB", "smaller batch"}));
        EXPECT_NE(f.out.find("MiB activations per rank"), std::string::npos)
            << "the plan is said all the same: " << f.out;
    }
}

/// Returns the bytes that a command and its children read from files and pipes (rchar of
/// /proc/self/io).
double bytes_read(const std::string& command) {
    const Finished f = run("before=$(sed -n 's/rchar: //p' /proc/$$/io); " + command +
                           " >/dev/null 2>&1; "
                           "echo $(($(sed -n 's/rchar: //p' /proc/$$/io) - before))");
    return std::atof(f.out.c_str());
}

// A shard with damaged pixels cannot train, but its header is sound. The dry run reads fewer bytes
// than the images have.
TEST_F(DryRun, ReadsNoImages) {
    make_data(large_, 30000, 100, "28x28x1", 1);
    const std::string shard = large_ + "/train-00000-of-00001.h5";
    const double size = double(fs::file_size(shard));
    const std::string dry = with_limit(sibling("convoy") + " " + arguments("--dry-run --data " + large_), 60);
    ASSERT_EQ("", failure(run(dry)));
    EXPECT_GT(bytes_read("cat " + shard), 0.9 * size) << "the counter counts";
    EXPECT_LT(bytes_read(dry), 0.3 * size);
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(long(size / 2));
    file.write("damaged", 7);
    file.close();
    EXPECT_EQ("", failure(run(dry)));
    EXPECT_EQ("", refusal(launch(1, arguments("--data " + large_)), Exit::bad_input, {shard}));
}

/// Returns the two numbers of "gpu       17.2 of 81558.0 MiB …".
std::pair<double, double> memory_of_gpu(const std::string& out) {
    double used = -1, all = -1;
    if (const size_t at = out.find("\ngpu "); at != std::string::npos)
        std::sscanf(out.c_str() + at, "\ngpu %lf of %lf MiB", &used, &all);
    return {used, all};
}

TEST_F(DryRun, PlansForAGpuThatIsNotHere) {
    make_data(large_, 20000, 100, "28x28x1", 1);
    const std::string dry = "--dry-run --batch-size 1000 --epochs 1 --data " + large_;
    const Finished f = launch(1, arguments(dry + " --device cuda --chip h100"));
    ASSERT_EQ("", failure(f));
    for (const char* words : {"H100", "precision f32", "\nplans ", "a training would start"})
        EXPECT_NE(f.out.find(words), std::string::npos) << words << " is missing in: " << f.out;
    // Images and labels; inputs, logits, their gradients and labels of a batch; weights, gradients
    // and velocity; order and rates.
    const double data = 20100.0 * (784 + 4), batch = 1000.0 * (784 * 4 + 2 * 10 * 4 + 4) + 1000.0 * 40,
                 state = 3 * 4.0 * 7850;
    const double expected = data + batch + state + 4 * 20000 + 4 * 20;
    const auto [used, all] = memory_of_gpu(f.out);
    EXPECT_NEAR(used, expected / (1 << 20), 0.1) << f.out;
    EXPECT_NEAR(all, 84942979072.0 / (1 << 20), 0.1);
    EXPECT_FALSE(fs::exists(output_));

    const Finished low = launch(1, arguments(dry + " --chip a100 --precision f16"));
    ASSERT_EQ("", failure(low));
    EXPECT_NE(low.out.find("A100"), std::string::npos) << low.out;
    EXPECT_NE(low.out.find("precision f16"), std::string::npos);
    // An image's one channel is padded to eight, of two bytes each; and GEMMs read a copy of the
    // weights.
    EXPECT_NEAR(memory_of_gpu(low.out).first - used, 1000.0 * 784 * (8 * 2 - 4) / (1 << 20), 0.1) << low.out;
}

/// Returns the sizes of "buckets   3 of gradients, in backward order: 16.0 20.3 6.3 MiB".
std::vector<double> bucket_sizes(const std::string& out) {
    std::vector<double> sizes;
    const std::string label = "in backward order: ";
    const size_t at = out.find(label);
    std::istringstream line(at == std::string::npos ? "" : out.substr(at + label.size()));
    for (double size; line >> size;) sizes.push_back(size);
    return sizes;
}

// Boards of these chips are linked by NVLink: a bucket has 16 MiB if there are all-reduces.
TEST_F(DryRun, PlansTheBucketsOfItsLinks) {
    make_data(large_, 60, 20, "32x32x3");
    const std::string more = "--dry-run --data " + large_ + " --model resnet18 --chip h100";
    for (const auto& [ranks, least] : {std::pair{1, 4.0}, {2, 16.0}}) {
        const Finished f = launch(ranks, arguments(more));
        ASSERT_EQ("", failure(f));
        std::vector<double> sizes = bucket_sizes(f.out);
        ASSERT_GT(sizes.size(), 1u) << f.out;
        sizes.pop_back();
        for (const double size : sizes) EXPECT_GE(size, least);
        // The largest parameter has 9 MiB, and a bucket ends with the parameter that fills it.
        EXPECT_LT(*std::min_element(sizes.begin(), sizes.end()), least + 9.1);
    }
}

// cuDNN takes longer to list its plans than a training's watchdog waits.
TEST_F(DryRun, ChecksTheMemoryOfTheGpuAndNotOfThisHost) {
    make_data(large_, 12000, 20, "32x32x3", 1);
    const auto dry = [&](const std::string& batch) {
        // Half of the memory that a training on this host would need exceeds its shell's limit.
        return run(
            "ulimit -d 3000000; " +
            with_limit(sibling("convoy") +
                           " train --dry-run --model resnet50 --precision bf16 --chip h100 --watchdog 2s --data " +
                           large_ + " --output " + output_ + " --batch-size " + batch,
                       300));
    };
    const Finished fits = dry("3000");
    EXPECT_EQ("", failure(fits));
    EXPECT_GT(memory_of_gpu(fits.out).first, 6000) << fits.out;
    EXPECT_EQ("", refusal(dry("12000"), Exit::out_of_memory,
                          {"the GPU of each rank", "the memory of --chip h100", "smaller batch"}));
}

TEST_F(DryRun, MistakesAboutChipsAreRefused) {
    EXPECT_EQ("", refusal(launch(2, arguments("--dry-run --chip b2")), Exit::usage, {"--chip b2", "h100", "a100"}));
    EXPECT_EQ("", refusal(convoy_alone("info --plans linear --chip b2"), Exit::usage, {"--chip b2", "h100", "cpu"}));
    EXPECT_EQ("", refusal(launch(2, arguments("--chip h100")), Exit::usage, {"--chip", "--dry-run"}));
    EXPECT_EQ("", refusal(launch(2, arguments("--dry-run --chip h100 --device cpu")), Exit::usage,
                          {"--chip h100", "--device cpu"}));
    const std::vector<std::string> words = {"--precision bf16", "--chip v100", "7.0", "8.0", "choose f32 or f16"};
    EXPECT_EQ("", refusal(launch(2, arguments("--dry-run --chip v100 --precision bf16")), Exit::usage, words));
    EXPECT_EQ("", refusal(convoy_alone("info --plans linear --chip v100 --precision bf16"), Exit::usage, words));
    EXPECT_EQ("", refusal(launch(2, "bench --model linear --batch-per-rank 2 --chip h100"), Exit::usage, {"--chip"}));
}

}  // namespace
}  // namespace convoy::test
