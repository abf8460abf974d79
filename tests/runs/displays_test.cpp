// A node without X servers, where another user listens in their place: hwloc, which Convoy and
// OpenMPI use, asks none of them. Run from the repository's root.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// In the environment of this test's commands: other tests may start mpirun meanwhile.
std::string mark() { return "DISPLAYS_TEST=" + std::to_string(::getpid()); }

/// Whether the process at the other end of a connection was started with mark().
bool is_marked(int connection) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
    std::ifstream environment("/proc/" + std::to_string(peer.pid) + "/environ");
    for (std::string variable; std::getline(environment, variable, '\0');)
        if (variable == mark()) return true;
    return false;
}

/// Listens as X servers of displays :0 to :9 do, in names without files. Counts the callers with
/// mark(), and hangs up on all.
class Listener {
public:
    Listener() {
        for (int display = 0; display < 10; ++display) {
            sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
            const std::string name = "/tmp/.X11-unix/X" + std::to_string(display);
            std::memcpy(address.sun_path + 1, name.data(), name.size());
            const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            const auto length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
            if (::bind(listening, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listening, 9) == 0)
                waiting_.push_back({listening, POLLIN, 0});
            else
                ::close(listening);  // an X server is there
        }
        thread_ = std::thread([this] { answer(); });
    }
    ~Listener() {
        end_ = true;
        thread_.join();
        for (const pollfd& p : waiting_) ::close(p.fd);
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    int displays() const { return int(waiting_.size()); }
    int callers() const { return callers_; }

private:
    void answer() {
        while (!end_) {
            if (::poll(waiting_.data(), waiting_.size(), 50) <= 0) continue;
            for (const pollfd& p : waiting_)
                if (p.revents & POLLIN) {
                    const int caller = ::accept(p.fd, nullptr, nullptr);
                    callers_ += is_marked(caller) ? 1 : 0;
                    ::close(caller);
                }
        }
    }

    std::vector<pollfd> waiting_;
    std::atomic<int> callers_ = 0;
    std::atomic<bool> end_ = false;
    std::thread thread_;
};

TEST(Displays, AreNotAsked) {
    const Listener listener;
    if (listener.displays() == 0) GTEST_SKIP() << "X servers have all the displays, or there are no such sockets";
    const std::string info = sibling("convoy") + " info", unset = "env -u HWLOC_COMPONENTS " + mark() + " ";
    if (run(with_limit("env " + mark() + " HWLOC_COMPONENTS= " + info, 30)).code != 0 || listener.callers() == 0)
        GTEST_SKIP() << "this hwloc asks no display: its plugin gl is not installed";
    const int before = listener.callers();
    const TempDir dir;
    make_data(dir.path("data"), 8, 4, "28x28x1", 1);
    for (const std::string& command : {info, sibling("convoy") + " verify " + dir.path("data")})
        EXPECT_EQ("", failure(run(with_limit(unset + command, 30)))) << command;
    EXPECT_EQ(listener.callers(), before);
    record_fault("sockets of another user in place of X servers", "no command connects to them", "as promised", 2);
}

TEST(Displays, AreNotAskedByMpirun) {
    const TempDir dir;
    write_file(dir.path("bin/mpirun"), "#!/bin/sh\necho \"components: $HWLOC_COMPONENTS.\"\n");
    write_file(dir.path("build/convoy"), "#!/bin/sh\n");
    make_data(dir.path("data"), 8, 4, "28x28x1", 1);
    ASSERT_EQ(run("chmod +x " + dir.path("bin/mpirun") + " " + dir.path("build/convoy")).code, 0);
    const std::string path = "env -u HWLOC_COMPONENTS PATH=" + dir.path("bin") + ":$PATH ";
    const std::string sweep = sibling("convoy") + " sweep lr=0.1 --ranks 2 --device cpu --model mnist-linear " +
                              "--batch-size 4 --data " + dir.path("data") + " --output " + dir.path("sweep");
    const std::string script = "env BUILD=" + dir.path("build") + " RUN=" + dir.path("run") + " bash input/run.sh";
    for (const std::string& command : {sweep, script}) {
        EXPECT_EQ(count(run(with_limit(path + command, 30)).out, "components: -gl.\n"), 1) << command;
        const Finished f = run(with_limit(path + "env HWLOC_COMPONENTS=x86 " + command, 30));
        EXPECT_EQ(count(f.out, "components: x86.\n"), 1) << command << ": the user's own value is kept";
    }
}

}  // namespace
}  // namespace convoy::test
