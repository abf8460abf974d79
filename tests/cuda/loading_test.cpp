// The executable starts without CUDA's libraries, loads them when a GPU is requested, and reports
// missing ones. The tests read the log of the system's loader, on copies of the executable in other
// folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/elf.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

const char* const backend = "libconvoy_cuda.so";
const std::vector<std::string> of_cuda = {"libcudnn", "libnccl", "libnvrtc", "libcuda.", "libcudart", "libconvoy_cuda"};

/// How the loader names the backend in its log.
const char* const backend_for_loader = "file=/proc/self/fd/";

/// A folder with a copy of the executable, and helpers that modify its backend.
class CudaLoading : public testing::Test {
protected:
    void SetUp() override { fs::copy(sibling("convoy"), copy_); }
    std::string path_of_backend() const { return dir_.path(backend); }

    /// Copies the backend with one text in it replaced by another of the same length. Returns false
    /// if it holds no such text.
    bool copy_backend(const std::string& text, const std::string& by) {
        std::string bytes = read_file(sibling(backend));
        const size_t first = bytes.find(text);
        for (size_t at = first; at != std::string::npos; at = bytes.find(text, at)) bytes.replace(at, text.size(), by);
        write_file(path_of_backend(), bytes);
        return first != std::string::npos;
    }

    Finished copied(int ranks, const std::string& arguments) const {
        std::string command = launch_command(ranks, arguments);
        return run(command.replace(command.find(sibling("convoy")), sibling("convoy").size(), copy_));
    }
    std::string training() {
        if (!fs::exists(dir_.path("data"))) make_data(dir_.path("data"), 8, 4, "28x28x1", 1);
        return "train --batch-size 4 --max-steps 1 --model mnist-linear --overwrite --data " + dir_.path("data") +
               " --output " + dir_.path("run");
    }
    /// Expects that `train --device cuda` is refused alike on one rank and on two.
    void refuses_device(const std::vector<std::string>& words) {
        for (const int ranks : {1, 2})
            EXPECT_EQ("", refusal(copied(ranks, training() + " --device cuda"), Exit::usage, words))
                << ranks << " ranks";
    }
    /// Expects that `--device auto` trains on the CPU and prints the reason on one line.
    void falls_back(const std::string& word) {
        const Finished f = copied(2, training() + " --device auto");
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(count(f.err, "warning: --device auto takes the CPU: "), 1) << f.err;
        EXPECT_NE(f.err.find(word), std::string::npos) << f.err;
        EXPECT_NE(f.out.find("oneDNN"), std::string::npos) << f.out;
    }

    TempDir dir_;
    std::string copy_ = dir_.path("convoy");
};

TEST_F(CudaLoading, TheExecutableNeedsNoneOfTheLibraries) {
    const Finished needs = run("ldd " + sibling("convoy"));
    ASSERT_NE(needs.out.find("libmpi"), std::string::npos) << needs.out << needs.err;
    for (const std::string& library : of_cuda) EXPECT_EQ(needs.out.find(library), std::string::npos) << needs.out;
    EXPECT_EQ(needs.out.find("not found"), std::string::npos) << needs.out;
}

// Uses the loader's own log of each file that it opens.
TEST_F(CudaLoading, OnlyWhoAsksForAGpuLoadsThem) {
    const auto files_opened = [&](const std::string& name, const std::string& arguments) {
        const std::string logs = dir_.path(name);
        fs::create_directory(logs);
        const Finished f =
            run("export LD_DEBUG=files LD_DEBUG_OUTPUT=" + logs + "/log; exec " + sibling("convoy") + " " + arguments);
        EXPECT_EQ("", failure(f)) << arguments;
        std::string all;
        for (const auto& log : fs::directory_iterator(logs)) all += read_file(log.path());
        EXPECT_NE(all.find("libmpi"), std::string::npos) << "the loader wrote no log of " << arguments;
        return all;
    };
    const std::string train = files_opened("train", training() + " --device cpu");
    const std::string bench =
        files_opened("bench", "bench --model mnist-linear --batch-per-rank 4 --steps 1 --warmup 1 --device cpu");
    const std::string report = files_opened("report", "report " + dir_.path("run"));
    for (const std::string& log : {train, bench, report, files_opened("version", "--version")}) {
        for (const std::string& library : of_cuda) EXPECT_EQ(log.find(library), std::string::npos) << library;
        EXPECT_EQ(log.find(backend_for_loader), std::string::npos);
    }
    // Another user could put a file at the path after it was checked; the loader gets what is open.
    const std::string info = files_opened("info", "info");
    EXPECT_NE(info.find(backend_for_loader), std::string::npos);
    EXPECT_EQ(info.find(std::string("file=") + sibling(backend)), std::string::npos);
}

TEST_F(CudaLoading, ACopyWithoutItsBackendStartsAndSaysSo) {
    EXPECT_EQ(copied(1, "--version").out, run(sibling("convoy") + " --version").out);
    refuses_device({"--device cuda", path_of_backend(), "is not there", "copy it", "--device cpu"});
    falls_back(path_of_backend());
    EXPECT_EQ("", refusal(copied(1, "info --plans mnist-conv"), Exit::usage, {"--plans", path_of_backend()}));
    const Finished info = copied(1, "info");
    EXPECT_EQ("", failure(info));
    EXPECT_NE(info.out.find("cuda library libconvoy_cuda.so is missing\n"), std::string::npos) << info.out;
    EXPECT_NE(info.out.find("\ngpu          " + path_of_backend() + ", the CUDA backend, is not there"),
              std::string::npos)
        << info.out;
}

// Simulates a machine without NCCL: the copy needs a library of another name, which does not exist.
TEST_F(CudaLoading, AMissingLibraryIsNamed) {
    if (is_emulated()) GTEST_SKIP() << "the emulated device needs none";
    ASSERT_TRUE(copy_backend("libnccl.so.", "libgone.so."));
    refuses_device({"--device cuda", "libgone.so.", "is not to be found", "LD_LIBRARY_PATH", "--device cpu"});
    falls_back("libgone.so.");
    const Finished info = copied(1, "info");
    EXPECT_EQ("", failure(info));
    EXPECT_NE(info.out.find("cuda library " + path_of_backend() + "\n"), std::string::npos) << info.out;
    EXPECT_NE(info.out.find("cuda library libgone.so.2 is missing\n"), std::string::npos) << info.out;
    // "        libcudnn.so.9 => /usr/local/cuda/lib64/libcudnn.so.9 (0x7f…)"
    std::istringstream ldd(run("ldd " + sibling(backend)).out);
    int libraries = 0;
    for (std::string line; std::getline(ldd, line);)
        if (const size_t at = line.find("=> /");
            at != std::string::npos && (line.find("libcudnn.") < at || line.find("libnvrtc.") < at)) {
            const std::string path = line.substr(at + 3, line.find(" (") - at - 3);
            EXPECT_NE(info.out.find("cuda library " + path + "\n"), std::string::npos)
                << path << " is not in " << info.out;
            ++libraries;
        }
    EXPECT_EQ(libraries, 2);
}

TEST_F(CudaLoading, EveryMissingLibraryIsNamed) {
    if (is_emulated()) GTEST_SKIP() << "the emulated device needs none";
    ASSERT_TRUE(copy_backend("libnccl.so.", "libgone.so."));
    std::string bytes = read_file(path_of_backend());
    bytes.replace(bytes.find("libcudnn.so."), 12, "libaway1.so.");
    write_file(path_of_backend(), bytes);
    refuses_device({"libaway1.so.", " and libgone.so.", "are not to be found"});
}

TEST_F(CudaLoading, ABackendThatIsDamagedIsRefused) {
    write_file(path_of_backend(), "no shared object\n");
    refuses_device({"--device cuda", "cannot be loaded", "--device cpu"});
}

TEST_F(CudaLoading, ABackendOfAnotherBuildIsRefused) {
    const std::string said = copied(1, "--version").out,
                      commit = said.substr(said.find('(') + 1, said.find(')') - said.find('(') - 1);
    if (commit == "unknown") GTEST_SKIP() << "built outside a git checkout";
    std::string another = commit;
    another[0] = another[0] == 'a' ? 'b' : 'a';
    ASSERT_TRUE(copy_backend(commit, another));
    refuses_device({"--device cuda", path_of_backend(), another, commit, "copy both"});
}

TEST_F(CudaLoading, ABackendOfAnotherUserIsRefused) {
    if (run("test $(id -u) = 0").code != 0) GTEST_SKIP() << "only root can give it to another user";
    fs::copy(sibling(backend), path_of_backend());
    ASSERT_EQ(run("chown 12345 " + path_of_backend()).code, 0);
    refuses_device({path_of_backend(), "belongs to another user (uid 12345)"});
}

TEST_F(CudaLoading, ALinkOfAnotherUserIsRefused) {
    if (run("test $(id -u) = 0").code != 0) GTEST_SKIP() << "only root can make another user's link";
    fs::create_symlink(fs::absolute(sibling(backend)), path_of_backend());
    EXPECT_EQ(copied(1, "info").out.find("belongs to another user"), std::string::npos) << "root's own link";
    ASSERT_EQ(run("chown -h 12345 " + path_of_backend()).code, 0);
    refuses_device({path_of_backend(), "belongs to another user (uid 12345)"});
}

// In such a folder others can make a hard link to a file of the user that they may write to.
TEST_F(CudaLoading, ABackendThatOthersCanHavePutThereIsRefused) {
    fs::copy(sibling(backend), path_of_backend());
    const auto said = [&](unsigned folder, unsigned file) {
        fs::permissions(dir_.path(), fs::perms(folder));
        fs::permissions(path_of_backend(), fs::perms(file));
        return copied(1, "info").out.find("may be written by others") != std::string::npos;
    };
    EXPECT_TRUE(said(01777, 0664));
    EXPECT_TRUE(said(01777, 0646));
    EXPECT_TRUE(said(01775, 0664)) << "a group's folder";
    EXPECT_FALSE(said(01777, 0644)) << "no other user may make a link to it";
    EXPECT_FALSE(said(0775, 0664)) << "a build with umask 002";
    fs::permissions(dir_.path(), fs::perms(0700));
    record_fault("a hard link to a file that others may write to, as the CUDA backend", "refused", "as promised", 3);
}

// The loader looks for a name with a slash in the current folder, and runs what it finds there.
TEST_F(CudaLoading, NothingThatAnotherUsersBackendNamesIsLoaded) {
    if (run("test $(id -u) = 0 && command -v gcc").code != 0) GTEST_SKIP() << "needs root and gcc";
    const std::string ran = dir_.path("ran"), make = "cd " + dir_.path() + " && gcc -shared -fPIC -x c ";
    fs::create_directory(dir_.path("libx"));
    write_file(dir_.path("e.c"), "#include <fcntl.h>\n__attribute__((constructor)) static void run(void) { open(\"" +
                                     ran + "\", O_CREAT | O_WRONLY, 0600); }\nint of_e;\n");
    ASSERT_EQ("", failure(run(make + "e.c -o libx/e.so -Wl,-soname,libx/e.so")));
    ASSERT_EQ("", failure(run(make + "/dev/null -o " + backend + " -Wl,--no-as-needed -x none libx/e.so")));
    ASSERT_EQ(needed_libraries(path_of_backend()).at(0), "libx/e.so");
    ASSERT_EQ(run("chown -R 12345 " + path_of_backend() + " " + dir_.path("libx")).code, 0);
    const Finished info = run("cd " + dir_.path() + " && " + with_limit("./convoy info", 20));
    EXPECT_EQ("", failure(info));
    EXPECT_FALSE(fs::exists(ran)) << info.out;
    EXPECT_NE(info.out.find("cuda library " + path_of_backend() + "\n"), std::string::npos) << info.out;
    EXPECT_EQ(info.out.find("libx/e.so"), std::string::npos) << info.out;
    EXPECT_NE(info.out.find("belongs to another user (uid 12345)"), std::string::npos) << info.out;
}

TEST_F(CudaLoading, APipeInPlaceOfTheBackendIsRefused) {
    ASSERT_EQ(run("mkfifo " + path_of_backend()).code, 0);
    EXPECT_TRUE(needed_libraries(path_of_backend()).empty());
    const Finished info = copied(1, "info");
    EXPECT_EQ("", failure(info));
    EXPECT_NE(info.out.find(path_of_backend() + ", the CUDA backend, is not a file"), std::string::npos) << info.out;
    refuses_device({path_of_backend(), "is not a file", "--device cpu"});
}

TEST_F(CudaLoading, InfoPrintsNoControlCharactersOfPaths) {
    fs::create_directory(dir_.path("a\x1b[31mb"));
    fs::copy(copy_, dir_.path("a\x1b[31mb/convoy"));
    const Finished info = run("cd " + dir_.path() + " && " + with_limit("./a*b/convoy info", 20));
    EXPECT_EQ("", failure(info));
    EXPECT_NE(info.out.find("a\\x1b[31mb/libconvoy_cuda.so"), std::string::npos) << info.out;
    EXPECT_EQ((info.out + info.err).find('\x1b'), std::string::npos) << info.out << info.err;
}

// Compares with the output of readelf.
TEST_F(CudaLoading, NeededLibrariesAreThoseOfReadelf) {
    if (run("command -v readelf").code != 0) GTEST_SKIP() << "needs binutils";
    for (const char* file : {"convoy", backend}) {
        std::istringstream lines(run("readelf -dW " + sibling(file)).out);
        std::vector<std::string> wanted;
        for (std::string line; std::getline(lines, line);)
            if (line.find("(NEEDED)") != std::string::npos)
                wanted.push_back(line.substr(line.find('[') + 1, line.find(']') - line.find('[') - 1));
        EXPECT_FALSE(wanted.empty());
        EXPECT_EQ(needed_libraries(sibling(file)), wanted) << file;
    }
}

TEST_F(CudaLoading, WhatIsNoProgramNeedsNoLibraries) {
    const TempDir dir;
    EXPECT_TRUE(needed_libraries(dir.path("nothing")).empty());
    const std::string bytes = read_file(sibling("convoy"));
    // cut off at any length, a file may be read or refused, but must not crash
    for (size_t length = 0; length < bytes.size(); length += 1 + length / 3) {
        write_file(dir.path("part"), bytes.substr(0, length));
        needed_libraries(dir.path("part"));
    }
    for (const std::string& text : {std::string(), std::string("no program"),
                                    "\x7f"
                                    "ELF" +
                                        std::string(60, '\xff')}) {
        write_file(dir.path("text"), text);
        EXPECT_TRUE(needed_libraries(dir.path("text")).empty());
    }
}

}  // namespace
}  // namespace convoy::test
