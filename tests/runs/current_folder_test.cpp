// The current folder may be another user's, /tmp for example: nothing in it is read because of its
// name. Pipes lie there, and a program that opens one waits until its limit of time.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class CurrentFolder : public testing::Test {
protected:
    void SetUp() override {
        std::filesystem::create_directories(here_);
        for (const char* name :
             {"ucx.conf", "mca-params.conf", "openmpi-mca-params.conf", "pmix-mca-params.conf", "prte-mca-params.conf",
              "libucp.so.0", "libmpi.so.40", "mca_pml_ucx.so", "libconvoy_cuda.so"})
            ASSERT_EQ(::mkfifo((here_ + "/" + name).c_str(), 0600), 0) << name;
    }
    Finished in_it(const std::string& command) const { return run("cd " + here_ + " && " + command); }

    TempDir dir_;
    const std::string here_ = dir_.path("here");
};

TEST_F(CurrentFolder, IsNotReadWhenMpiStarts) {
    const std::string making =
        sibling("convoy") + " convert synthetic --images 10 --test-images 10 --size 4x4x1 --to made-";
    EXPECT_EQ("", failure(in_it(with_limit(making + "alone", 30))));
    // ^cm: OpenMPI loads UCX, too, if it is installed.
    EXPECT_EQ("", failure(in_it(with_limit(
                      "mpirun --oversubscribe --bind-to none --mca pml ^cm -np 2 " + making + "by-two", 30))));
    for (const char* made : {"/made-alone", "/made-by-two"})
        EXPECT_TRUE(std::filesystem::exists(here_ + made + "/manifest.json"))
            << "relative paths are those of the current folder";
    if (in_it("timeout 3 ${PYTHON:-/usr/bin/python3} -c \"import ctypes; ctypes.CDLL('libucs.so.0')\"").code != 124)
        GTEST_SKIP() << "no UCX is here that would read ucx.conf; the rest holds";
}

// OpenMPI may be linked with UCX. Its constructor then runs before main(), for every command.
TEST_F(CurrentFolder, IsNotReadByConstructorsOfLibraries) {
    write_file(dir_.path("ucx.c"),
               "#include <fcntl.h>\n__attribute__((constructor)) static void start(void) {\n"
               "    if (open(\"ucx.conf\", O_RDONLY) >= 0) *(volatile int *)0 = 0;\n}\n");
    const std::string library = dir_.path("ucx.so");
    if (run("cc -shared -fPIC -o " + library + " " + dir_.path("ucx.c")).code != 0) GTEST_SKIP() << "no C compiler";
    const std::string convoy = "env LD_PRELOAD=" + library + " " + sibling("convoy");
    EXPECT_EQ(in_it("timeout 3 env LD_PRELOAD=" + library + " true").code, 124) << "the library reads the pipe";
    EXPECT_EQ("", failure(in_it(with_limit(convoy + " --version", 30))));
    EXPECT_EQ("", failure(in_it(with_limit(convoy + " convert synthetic --images 10 --size 4x4x1 --to made", 30))));
    EXPECT_TRUE(std::filesystem::exists(here_ + "/made/manifest.json"));
}

// Its owner may close and open it while convoy starts.
TEST_F(CurrentFolder, ThatCannotBeEnteredEndsTheProgram) {
    const std::string other_user = "setpriv --reuid=23459 --regid=23459 --clear-groups ";
    if (::geteuid() != 0 || run(other_user + "test -x " + sibling("convoy")).code != 0)
        GTEST_SKIP() << "needs root, setpriv, and an executable that others can reach";
    ASSERT_EQ(::chmod(here_.c_str(), 0700), 0);
    for (const char* command : {" --version", " info"})
        EXPECT_EQ("", refusal(in_it(other_user + sibling("convoy") + command), Exit::io,
                              {"the current folder cannot be entered; start in a folder of yours: Permission denied"}));
}

// A parallel h5py loads MPI, too.
TEST_F(CurrentFolder, IsNotWhereScriptsImportPackages) {
    const std::string scripts = std::filesystem::current_path() / "src/plot/", packages = dir_.path("packages");
    for (const char* name : {"h5py", "tensorboard"})
        write_file(
            packages + "/" + name + ".py",
            "import os, sys\nsys.stderr.write('imported in ' + os.getcwd() + '\\n')\nraise ImportError('none')\n");
    for (const char* script : {"plot.py", "to_tensorboard.py"}) {
        const Finished f = in_it("PYTHONPATH=" + packages + " ${PYTHON:-/usr/bin/python3} " + scripts + script + " x");
        EXPECT_EQ(f.err.rfind("imported in /\n", 0), 0u) << f.err;
        EXPECT_EQ(count(f.err, "imported in"), 1) << f.err;
    }
}

}  // namespace
}  // namespace convoy::test
