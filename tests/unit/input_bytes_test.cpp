// Files of data sets that are read from their start to their end.
#include "data/input_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <thread>

#include "base/descriptor.h"
#include "data/digest.h"
#include "data/gzip.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// A pipe with a process that writes nothing: it waits until the pipe is opened, and closes it.
class SilentPipe {
public:
    explicit SilentPipe(std::string path) : path_(std::move(path)) {
        EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
        writer_ = std::jthread([this] { const Descriptor opened(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)); });
    }
    ~SilentPipe() {
        const Descriptor reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        writer_.join();
    }
    SilentPipe(const SilentPipe&) = delete;

private:
    const std::string path_;
    std::jthread writer_;
};

// Another user may put a pipe in the place of a file at any time.
TEST(InputBytes, APipeIsRefusedWhereAFileIsOpened) {
    const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> readers = {
        {"bytes", [](const std::string& path) { const InputBytes file(path); }},
        {"gzip", [](const std::string& path) { const GzipReader file(path); }},
        {"digest", [](const std::string& path) { digest_of_file(Digest::Kind::sha256, path); }}};
    const TempDir dir;
    for (const auto& [name, read] : readers) {
        const SilentPipe pipe(dir.path(name));
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {dir.path(name) + ": is not a regular file"},
                                       [&] { read(dir.path(name)); }))
            << name;
    }
}

TEST(InputBytes, ADigestIsThatOfTheWholeFile) {
    const TempDir dir;
    write_file(dir.path("x"), std::string(3 << 20, 'x') + "y");
    const std::string text = read_file(dir.path("x")), hex = digest_of_file(Digest::Kind::sha256, dir.path("x"));
    EXPECT_EQ(hex, digest_of(Digest::Kind::sha256, text.data(), text.size()));
    EXPECT_EQ(hex + "  " + dir.path("x") + "\n", run("sha256sum " + dir.path("x")).out);
}

}  // namespace
}  // namespace convoy::test
