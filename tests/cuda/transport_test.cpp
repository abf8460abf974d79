// NCCL's log of its links, and what follows from it.
#include "backend/cuda/transport.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "backend/gpu/all_reduces.h"
#include "backend/nccl_log.h"

namespace convoy::test {
namespace {

using namespace cuda;

// Lines as NCCL 2.19 to 2.28 print them.
TEST(CudaTransport, IsReadFromWhatNcclPrints) {
    EXPECT_EQ(transports_of(""), std::set<std::string>());
    EXPECT_EQ(transports_of("n6:401:465 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.6<0>\n"
                            "n6:401:465 [0] NCCL INFO Using network IB\n"
                            "n6:401:465 [0] NCCL INFO Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA\n"
                            "n6:401:465 [0] NCCL INFO Channel 01/0 : 3[1] -> 1[1] [send] via NET/IB/2(0)/GDRDMA\n"
                            "n6:401:465 [0] NCCL INFO Channel 00/0 : 3[1] -> 2[0] via P2P/CUMEM\n"),
              (std::set<std::string>{"NET/IB/GDRDMA", "P2P/CUMEM"}));
    EXPECT_EQ(transports_of("a:1:2 [0] NCCL INFO Channel 00/1 : 0[0] -> 1[1] [send] via NET/Socket/0\n"
                            "a:1:2 [0] NCCL INFO Channel 02 : 1[1] -> 0[0] via SHM/direct/direct\n"
                            "a:1:2 [0] NCCL INFO Channel 01/0 : 1[1] -> 0[0] via P2P/direct pointer\n"),
              (std::set<std::string>{"NET/Socket", "P2P/direct pointer", "SHM/direct/direct"}));
}

TEST(CudaTransport, SocketsBesideInfiniBandAreAWarning) {
    const std::string port = "mlx5_0 400 Gb/sec (4X NDR)";
    EXPECT_NE(socket_warning("NET/Socket\nP2P/CUMEM\n", port).find(port), std::string::npos);
    EXPECT_EQ(socket_warning("NET/Socket\n", ""), "");
    EXPECT_EQ(socket_warning("NET/IB/GDRDMA\nP2P/CUMEM\n", port), "");
}

TEST(CudaTransport, BucketsGoByTheSlowestLink) {
    constexpr size_t mib = 1 << 20;
    struct {
        bool several_hosts, nvlink, verbs;
        size_t bytes;
    } const cases[] = {{false, true, false, 16 * mib},
                       {false, false, true, 4 * mib},
                       {true, true, false, 4 * mib},
                       {true, false, true, 16 * mib}};
    for (const auto& c : cases) EXPECT_EQ(bucket_bytes_of(c.several_hosts, c.nvlink, c.verbs), c.bytes);
}

TEST(CudaTransport, NcclsBlocksAreThoseOfItsVariable) {
    ::unsetenv("NCCL_MAX_CTAS");
    EXPECT_EQ(nccl_blocks(), 32);
    ::setenv("NCCL_MAX_CTAS", "8", 1);
    EXPECT_EQ(nccl_blocks(), 8);
    ::unsetenv("NCCL_MAX_CTAS");
}

// Opens the log file like NCCL. Each child is a process of one thread.
TEST(CudaTransport, TheLogIsKeptInMemory) {
    const auto in_child = [](auto check) {
        const pid_t child = fork();
        if (child == 0) _exit(check() ? 0 : 1);
        int status = -1;
        waitpid(child, &status, 0);
        return status == 0;
    };
    EXPECT_TRUE(in_child([] {
        keep_nccl_log();
        const char *file = std::getenv("NCCL_DEBUG_FILE"), *level = std::getenv("NCCL_DEBUG");
        if (!file || !level || std::string(level) != "INFO" || !nccl_log().empty()) return false;
        std::ofstream(file) << "a line\n";
        return nccl_log() == "a line\n";
    }));
    EXPECT_TRUE(in_child([] {
        ::setenv("NCCL_DEBUG", "WARN", 1);
        keep_nccl_log();
        return std::getenv("NCCL_DEBUG_FILE") == nullptr && nccl_log().empty();
    })) << "the user has said where";
    EXPECT_TRUE(in_child([] {
        std::promise<void> done;
        std::thread other([&] { done.get_future().wait(); });
        keep_nccl_log();
        done.set_value();
        other.join();
        return std::getenv("NCCL_DEBUG") == nullptr && nccl_log().empty();
    })) << "another thread may read the environment";
}

}  // namespace
}  // namespace convoy::test
