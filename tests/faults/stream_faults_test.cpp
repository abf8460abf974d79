// Images that are read during steps: damage found then, a file system that hangs, and ranks that
// are killed while they share memory.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include "data/shard.h"
#include "data/split_pieces.h"
#include "plan/stream_order.h"
#include "tests/support/cluster.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

constexpr size_t block_bytes = 300 << 10;  // 400 of 1,990 images

class StreamFaults : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 1990, 20, "28x28x1", 30); }
    std::string training(const std::string& placement, const std::string& more) const {
        const std::string blocks =
            placement == "stream" ? " --stream-block-mib " + std::to_string(double(block_bytes) / (1 << 20)) : "";
        return "train --data " + data_ +
               " --model mnist-linear --batch-size 20 --epochs 100000 --metrics-every 1 --log-interval 1 --output " +
               run_ + " --data-placement " + placement + blocks + " " + more;
    }
    /// Returns the shard that epoch `epoch` reads last; a shard is one piece.
    static std::string last_shard(const std::string& data, uint32_t epoch) {
        const SplitReader reader(data, "train");
        std::vector<RowRun> runs;
        const SplitPieces pieces(reader);
        for (const Piece& piece : pieces.all()) runs.push_back({piece.first, piece.rows, piece.bytes});
        EXPECT_EQ(runs.size(), 30u);
        return data + "/" + shard_name("train", StreamOrder(runs, block_bytes).epoch({true, 1}, epoch).runs.back(), 30);
    }
    static void flip_a_pixel(const std::string& path) {
        haddr_t address = 0;
        {
            const h5::Handle file = h5::open(path), images = h5::open_dataset(file, "/images", path);
            const std::array<hsize_t, 4> first{};
            hsize_t size = 0;
            unsigned filters = 0;
            ASSERT_GE(H5Dget_chunk_info_by_coord(images, first.data(), &filters, &address, &size), 0);
        }
        const int fd = ::open(path.c_str(), O_RDWR);
        uint8_t byte = 0;
        ASSERT_EQ(::pread(fd, &byte, 1, off_t(address) + 1000), 1);
        byte ^= 4;
        ASSERT_EQ(::pwrite(fd, &byte, 1, off_t(address) + 1000), 1);
        ::close(fd);
    }
    /// Returns the step of the newest checkpoint.
    int64_t steps_done() const {
        const std::vector<std::string> checkpoints = checkpoints_of(run_);
        return checkpoints.empty() ? 0 : step_of_checkpoint(checkpoints.front());
    }
    /// Returns the files in /dev/shm that no process maps, because mapped ones belong to other
    /// jobs, and its folders with files in them.
    static std::set<std::string> left_in_shared_memory() {
        std::set<std::string> names;
        std::error_code removed_meanwhile;
        for (const auto& entry : fs::directory_iterator("/dev/shm"))
            if (!fs::is_empty(entry.path(), removed_meanwhile)) names.insert(entry.path());
        std::istringstream mapped(run("cat /proc/[0-9]*/maps 2>/dev/null | grep -oE '/dev/shm/[^ /]+' | sort -u").out);
        for (std::string name; mapped >> name;) names.erase(name);
        return names;
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), run_ = dir_.path("run");
};

TEST_F(StreamFaults, DamageIsFoundWhenItIsRead) {
    const std::string shard = last_shard(data_, 0);
    flip_a_pixel(shard);
    for (const int ranks : {1, 2, 3}) {
        fs::remove_all(run_);
        EXPECT_EQ("", refusal(launch(ranks, training("stream", "--checkpoint-every 5")), Exit::bad_input,
                              {"rank", shard + ": chunk 0 of /images", "does not match its checksum"}))
            << ranks << " ranks";
        EXPECT_GT(steps_done(), 0) << "it lies in the last block";
        EXPECT_LT(steps_done(), 100) << "within the first epoch";
    }
    record_fault("a chunk of a stream does not match its checksum", "exit 3 in mid-training: file, chunk, rows, rank",
                 "on 1, 2 and 3 ranks", 3);
}

// There are more files than stay open, so some are opened in every epoch.
TEST_F(StreamFaults, ARemovedShardIsNamed) {
    fs::remove_all(data_);
    make_data(data_, 1990, 20, "28x28x1", 180);
    const std::string start = launch_command(2, training("stream", ""), 60);
    const Finished f = run("{ " + start + "; } & job=$!; for i in $(seq 200); do [ -s " + run_ +
                           "/metrics.jsonl ] && break; sleep 0.05; done; rm " + data_ + "/train-*; : >" + data_ +
                           "/train-00000-of-00180.h5; wait $job");
    EXPECT_EQ("", refusal(f, Exit::bad_input, {"rank", data_ + "/train-", "was"}));
}

// The library in LD_PRELOAD simulates a file system that stops answering.
TEST_F(StreamFaults, AFileSystemThatHangsIsTheWatchdogs) {
    const std::string library = dir_.path("hang.so"), gate = dir_.path("gate");
    write_file(dir_.path("hang.cpp"), R"(
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern "C" ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
    char link[64] = "/proc/self/fd/", path[4096] = "";
    for (int n = fd, i = 17; i >= 14; --i, n /= 10) link[i] = char('0' + n % 10);
    while (link[14] == '0' && link[15]) memmove(link + 14, link + 15, strlen(link + 14));
    (void)!readlink(link, path, sizeof path - 1);
    while (strstr(path, "/train-") && access(getenv("CONVOY_TEST_GATE"), F_OK) == 0) pause();
    return reinterpret_cast<ssize_t (*)(int, void*, size_t, off_t)>(dlsym(RTLD_NEXT, "pread"))(fd, to, bytes, at);
}
)");
    if (run("c++ -shared -fPIC -o " + library + " " + dir_.path("hang.cpp") + " -ldl").code != 0)
        GTEST_SKIP() << "no compiler here";
    const std::string start = with_limit("mpirun --oversubscribe --bind-to none -np 2 env LD_PRELOAD=" + library +
                                             " CONVOY_TEST_GATE=" + gate + " " + sibling("convoy") + " " +
                                             training("stream", "--watchdog 6s"),
                                         60);
    const Finished f = run("{ " + start + "; } & job=$!; for i in $(seq 200); do [ -s " + run_ +
                           "/metrics.jsonl ] && break; sleep 0.05; done; : >" + gate + "; wait $job");
    EXPECT_EQ(f.code, int(Exit::comm)) << f.out << f.err;
    EXPECT_NE(f.err.find("no progress for 6 s (--watchdog)"), std::string::npos) << f.err;
    EXPECT_NE(f.err.find("is in 'waiting for images from disk'"), std::string::npos) << f.err;
    record_fault("the file system of a stream hangs, `--watchdog 6s`", "exit 6, ranks say what they wait for", "exit 6",
                 1);
}

TEST_F(StreamFaults, KilledRanksLeaveNoSharedMemory) {
    for (const char* placement : {"replicate", "partition", "stream"}) {
        const std::set<std::string> before = left_in_shared_memory();
        const std::string start = launch_command(2, training(placement, "--overwrite"), 60);
        const Finished f =
            run("{ " + start + "; } >/dev/null 2>&1 & job=$!; for i in $(seq 200); do [ -s " + run_ +
                "/metrics.jsonl ] && break; sleep 0.05; done; pgrep -fc '^" + sibling("convoy") + " train .*" + run_ +
                "'; pkill -9 -f '(mpirun|prterun|" + sibling("convoy") + ").* train .*" + run_ + "'; wait $job");
        EXPECT_EQ(f.out, "2\n") << "ranks that train: " << f.err;
        // Another job may have created a name that it has not mapped yet.
        for (int i = 0; i < 50 && left_in_shared_memory() != before; ++i) usleep(100'000);
        EXPECT_EQ(left_in_shared_memory(), before) << placement;
        fs::remove_all(run_);
    }
    record_fault("kill -9 of all ranks and of mpirun", "no file is left in /dev/shm", "with every --data-placement", 3);
}

}  // namespace
}  // namespace convoy::test
