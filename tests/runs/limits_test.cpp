// Real limits on memory: of a shell, and of a control group if this test can make one. A run that
// does not fit is refused in one line that names the limit; the kernel would kill it without a
// message.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <system_error>

#include "base/memory_limits.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

constexpr size_t mib = size_t(1) << 20;

/// A memory control group below that of this process, removed at the end of the scope. It has no
/// folder if none can be made.
class Group {
public:
    explicit Group(size_t limit_mib) {
        for (const auto& [place, file] :
             {std::pair{parent("memory", "/sys/fs/cgroup/memory"), "/memory.limit_in_bytes"},
              {parent("", "/sys/fs/cgroup"), "/memory.max"}}) {
            std::string pattern = place + "/convoy-test-XXXXXX";
            if (place.empty() || !::mkdtemp(pattern.data())) continue;
            folder_ = pattern;
            if (fs::exists(folder_ + file) && write(file, std::to_string(limit_mib * mib))) return;
            remove();
        }
    }
    ~Group() { remove(); }
    Group(const Group&) = delete;
    explicit operator bool() const { return !folder_.empty(); }
    /// Runs `command` within the group.
    Finished run_inside(const std::string& command) const {
        return run("echo $$ >" + folder_ + "/cgroup.procs && " + command);
    }
    std::string name() const { return fs::path(folder_).filename(); }

private:
    /// Returns the folder of this process's group; an empty `controller` means version 2.
    static std::string parent(const std::string& controller, const std::string& mount) {
        std::ifstream in("/proc/self/cgroup");
        for (std::string line; std::getline(in, line);) {
            const size_t at = line.find(":" + controller + ":");
            if (at != std::string::npos) return mount + line.substr(at + controller.size() + 2);
        }
        return "";
    }
    bool write(const std::string& file, const std::string& text) const {
        std::ofstream out(folder_ + file);
        out << text << std::flush;
        return bool(out);
    }
    void remove() {
        for (int tries = 0; !folder_.empty() && ::rmdir(folder_.c_str()) != 0 && tries < 50; ++tries) ::usleep(100'000);
        folder_.clear();
    }
    std::string folder_;
};

/// Returns the bytes that the node has free.
size_t free_of_node() {
    for (const MemoryLimit& l : memory_limits())
        if (l.group == "node") return l.left;
    return 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // shadow memory takes terabytes of address space
#else
constexpr bool sanitized = false;
#endif

TEST(Limits, OfTheShellAreNamed) {
    if (sanitized || free_of_node() < 6000 * mib) GTEST_SKIP() << "needs a node with 6 GB free, and no sanitizer";
    const std::string bench =
        " bench --model mnist-conv --batch-per-rank 200000 --threads 1 --warmup 0 --steps 1 --profile-steps 0";
    for (const char* which : {"-v", "-d"}) {
        const std::string limit = std::string("ulimit ") + which + " 4000000; ";
        for (const std::string& start :
             {sibling("convoy"), "mpirun --oversubscribe --bind-to none -np 2 " + sibling("convoy")})
            EXPECT_EQ(
                "", refusal(run(limit + with_limit(start + bench, 60)), Exit::out_of_memory,
                            {"the limit of 3906 MiB of each process", std::string("ulimit ") + which, "smaller batch"}))
                << which;
    }
}

TEST(Limits, OfAControlGroupAreNamed) {
    const Group group(120);
    if (!group) GTEST_SKIP() << "no control group can be made here; that takes root and a cgroup file system";
    const TempDir dir;
    make_data(dir.path("data"), 45000, 100, "32x32x3");  // 138 MB
    make_data(dir.path("small"), 3000, 100, "28x28x1");
    const std::string options = " --threads 1 --output " + dir.path("run") + " --overwrite --max-steps 2 --data ";
    for (int ranks = 1; ranks <= 2; ++ranks) {
        const auto train = [&](const std::string& more) {
            return group.run_inside(launch_command(ranks, "train" + options + more));
        };
        EXPECT_EQ("", refusal(train(dir.path("data") + " --model resnet18 --batch-size 2 --data-placement replicate"),
                              Exit::out_of_memory,
                              {"the data set", "the limit of 120 MiB of control group", group.name(), "--mem"}))
            << ranks << " ranks";
        EXPECT_EQ("", refusal(train(dir.path("small") + " --model mnist-conv --batch-size 3000"), Exit::out_of_memory,
                              {"the limit of 120 MiB of control group", group.name(), "smaller batch", "--mem"}))
            << ranks << " ranks";
    }
    EXPECT_EQ("", failure(group.run_inside(launch_command(
                      1, "train" + options + dir.path("small") + " --model mnist-conv --batch-size 100"))))
        << "what fits, trains";
}

// A data set that does not fit is read from disk during steps, in blocks: here half the set's size.
TEST(Limits, AStreamTakesLessThanTheDataSet) {
    const Group group(150);
    if (!group) GTEST_SKIP() << "no control group can be made here; that takes root and a cgroup file system";
    const TempDir dir;
    make_data(dir.path("data"), 390000, 2000, "28x28x1", 4);  // 293 MiB
    for (int ranks = 1; ranks <= 2; ++ranks)
        for (const char* more : {"", " --dry-run"}) {
            const Finished f = group.run_inside(
                launch_command(ranks, "train --model mnist-linear --batch-size 1000 --threads 1 --overwrite --data " +
                                          dir.path("data") + " --output " + dir.path("run") + more));
            EXPECT_EQ("", failure(f)) << ranks << more;
            EXPECT_NE(f.out.find("images    0.29 GiB of images are read from disk while steps run; this node holds its "
                                 "part of two blocks, 0.07 GiB"),
                      std::string::npos)
                << f.out;
        }
    EXPECT_EQ(column(dir.path("run"), "train/loss").size(), 390u);
}

// Shared memory holds the training set's window, but not the test set's as well. A write to a page
// when none is left is a bus error.
TEST(Limits, OfSharedMemoryAreKept) {
    const TempDir dir;
    make_data(dir.path("data"), 24000, 24000, "28x28x1", 4);  // 18 MiB each; a window has two blocks
    const std::string train =
        launch_command(2, "train --model mnist-linear --batch-size 1000 --epochs 2 --data-placement stream --data " +
                              dir.path("data") + " --output " + dir.path("run"));
    // `unshare --mount` alone fails in a chroot, whose root is no mount. Without the private mount
    // below, all processes would see the small one.
    write_file(dir.path("script"),
               "mount --make-private /dev/shm && mount -t tmpfs -o size=54m tmpfs /dev/shm || exit 77\n" + train);
    const Finished f = run("unshare --mount --propagation unchanged bash " + dir.path("script"));
    if (f.code == 77 || f.err.find("unshare failed") != std::string::npos)
        GTEST_SKIP() << "no permission to mount a small /dev/shm";
    EXPECT_EQ("", failure(f));
}

// A dry run refuses by the same limits.
TEST(Limits, HoldForDryRunsToo) {
    const Group group(120);
    if (!group) GTEST_SKIP() << "no control group can be made here; that takes root and a cgroup file system";
    const TempDir dir;
    make_data(dir.path("small"), 3000, 100, "28x28x1");
    const std::string dry =
        "train --dry-run --threads 1 --model mnist-conv --data " + dir.path("small") + " --output " + dir.path("run");
    EXPECT_EQ("", refusal(group.run_inside(launch_command(1, dry + " --batch-size 3000")), Exit::out_of_memory,
                          {group.name(), "--mem"}));
    EXPECT_EQ("", failure(group.run_inside(launch_command(1, dry + " --batch-size 100"))));
}

// mpirun refuses more ranks than cores, and most users who try the READMEs' lines have fewer than
// four.
TEST(Limits, ReadmesStartNoMoreRanksThanMpirunDoes) {
    int lines = 0;
    for (const char* name :
         {"README.md", "input/README.md", "input/TRAINING.md", "output/README.md", "jobs/README.md", "src/README.md"}) {
        std::ifstream in(name);
        EXPECT_TRUE(in) << name;
        for (std::string line; std::getline(in, line);) {
            if (line.find("mpirun -np 4") == std::string::npos) continue;
            ++lines;
            EXPECT_NE(line.find("mpirun -np 4 --oversubscribe "), std::string::npos) << name << ": " << line;
        }
    }
    EXPECT_GT(lines, 0);
}

// Failures that the budget does not predict end with the same code: memory that malloc cannot
// allocate, a thread that cannot start.
TEST(Limits, WhatTheSystemRefusesIsCode7) {
    EXPECT_EQ("", problem_of_error(Exit::out_of_memory, {"out of memory", "the narrowest limit is"},
                                   [] { test_comm().together([] { throw std::bad_alloc(); }); }));
    EXPECT_EQ("", problem_of_error(Exit::out_of_memory, {"out of memory", "the narrowest limit is"}, [] {
                  test_comm().together([] { throw std::system_error(EAGAIN, std::generic_category()); });
              }));
    EXPECT_THROW(test_comm().together([] { throw std::system_error(EPERM, std::generic_category()); }),
                 std::system_error);
}

}  // namespace
}  // namespace convoy::test
