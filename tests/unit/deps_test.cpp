// .ci/deps.sh on machines unlike this one: its table of dependencies, row by row. Run from the
// repository's root.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Returns the output of `deps.sh info` for a machine with a toolkit in `cuda` and without
/// cudnn-frontend.
std::string info_with_toolkit_in(const std::string& cuda) {
    return run("CUDA='" + cuda + "' CUDNN_FRONTEND=/nonexistent bash .ci/deps.sh info").out;
}

bool misses(const std::string& info, const std::string& name) {
    return info.find("\n" + name + std::string(25 - name.size(), ' ') + "missing") != std::string::npos;
}

TEST(Deps, WithoutAToolkitNothingOfCudaIsMissing) {
    if (run("command -v bash g++ mpicxx").code != 0) GTEST_SKIP() << "needs a development environment";
    for (const char* nowhere : {"", "/nonexistent"}) {
        const std::string info = info_with_toolkit_in(nowhere);
        EXPECT_NE(info.find("only the CPU backend"), std::string::npos) << info;
        EXPECT_FALSE(misses(info, "cudnn-frontend")) << info;
        EXPECT_FALSE(misses(info, "Boost.Context")) << info;
    }
}

TEST(Deps, WithAToolkitItsHeadersAreWanted) {
    if (run("command -v bash g++ mpicxx").code != 0) GTEST_SKIP() << "needs a development environment";
    const TempDir dir;
    write_file(dir.path("bin/nvcc"), "#!/bin/sh\n");
    ASSERT_EQ(run("chmod +x " + dir.path("bin/nvcc")).code, 0);
    EXPECT_TRUE(misses(info_with_toolkit_in(dir.path()), "cudnn-frontend"));
}

// Pictures need libtiff's handlers and limits of one file, which 4.5 has first.
TEST(Deps, AnOlderLibtiffIsNotEnough) {
    if (run("echo '#include <tiffio.h>' | g++ -E -x c++ -").code != 0) GTEST_SKIP() << "needs libtiff's headers";
    const TempDir dir;
    write_file(dir.path("tiffio.h"), "#define TIFFLIB_VERSION 20220520\n");  // 4.4.0
    const std::string name = "libtiff 4.5 or newer";
    EXPECT_FALSE(misses(run("CUDA= bash .ci/deps.sh info").out, name));
    EXPECT_TRUE(misses(run("CPATH=" + dir.path() + " CUDA= bash .ci/deps.sh info").out, name));
}

// The script would delete the folder, and all that a user has in it.
TEST(Deps, NothingIsInstalledIntoAUsersOwnFolder) {
    if (run("command -v bash realpath").code != 0) GTEST_SKIP() << "needs a development environment";
    const TempDir dir;
    write_file(dir.path("mine/thesis"), "mine");
    write_file(dir.path("cuda/bin/nvcc"), "#!/bin/sh\n");
    write_file(dir.path("dnnl/include/oneapi/dnnl/dnnl.hpp"), "");
    for (const char* tool : {"apt-get", "python", "pip"})  // what would install
        write_file(dir.path(std::string("bin/") + tool),
                   "#!/bin/sh\necho \"$0 $*\" >>" + dir.path("ran") + "\nexit 1\n");
    ASSERT_EQ(run("chmod +x " + dir.path("cuda/bin/nvcc") + " " + dir.path("bin") + "/*").code, 0);
    ASSERT_EQ(run("cp -r .ci " + dir.path()).code, 0);
    const std::string mine = dir.path("mine"),
                      programs = "PATH=" + dir.path("bin") + ":$PATH PYTHON=" + dir.path("bin/python");
    const auto refused = [&](const std::string& settings, const std::string& header) {
        const Finished f = run("env " + programs + " " + settings + " bash " + dir.path(".ci/deps.sh") + " install");
        EXPECT_EQ(f.code, 1) << f.out << f.err;
        EXPECT_NE(f.err.find("there is no " + header + ";"), std::string::npos) << f.err;
        EXPECT_EQ(f.err.find('\n'), f.err.size() - 1) << f.err;
    };
    refused("CUDA= ONEDNN=" + mine, mine + "/include/oneapi/dnnl/dnnl.hpp");
    refused("CUDA= ONEDNN=..", "../include/oneapi/dnnl/dnnl.hpp");
    refused("CUDA=" + dir.path("cuda") + " ONEDNN=" + dir.path("dnnl") + " CUDNN_FRONTEND=" + mine,
            mine + "/include/cudnn_frontend.h");
    EXPECT_EQ(read_file(mine + "/thesis"), "mine");
    EXPECT_FALSE(std::filesystem::exists(dir.path("ran"))) << read_file(dir.path("ran"));
}

// git fetch brings tags of other people, and their names may hold most characters.
TEST(Deps, TheNameOfATagIsNoCommandOfMake) {
    if (run("command -v git make g++ mpicxx").code != 0) GTEST_SKIP() << "needs a development environment";
    const TempDir dir;
    write_file(
        dir.path("make.sh"),
        "mkdir tests && cp $1/Makefile . && cp $1/tests/tests.mk tests && git init -q . && git add -A &&\n"
        "git -c user.name=a -c user.email=a@b.c commit -qm first &&\n"
        "git -c user.name=a -c user.email=a@b.c tag -a \"v1';touch\\${IFS}ran;'\" -m x &&\n"
        "unset MAKEFLAGS MFLAGS MAKELEVEL COMMIT && make CUDA= BUILD=build build/commit >&2 && cat build/commit &&\n"
        "make CUDA= BUILD=build \"COMMIT=v2';touch ran;'\" build/commit >&2 && cat build/commit\n");
    const Finished f = run("here=$(pwd) && cd " + dir.path() + " && bash make.sh $here");
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_TRUE(std::regex_match(f.out, std::regex("[0-9a-f]{12}(-dirty)?\nv2touchran\n"))) << f.out;
    EXPECT_FALSE(std::filesystem::exists(dir.path("ran")));
}

// Some of its files are programs, and anybody may make a folder ../shared in /tmp.
TEST(Deps, DataBesideTheCheckoutMustBeTheUsers) {
    const TempDir dir;
    const std::string unpack = dir.path("shared/data/cifar10/unpack.py");
    write_file(unpack, "");
    write_file(dir.path("checkout/tests/support/shared_data.py"), read_file("tests/support/shared_data.py"));
    const auto found = [&] {
        return run("cd " + dir.path("checkout/tests/support") +
                   " && ${PYTHON:-/usr/bin/python3} -B -c \"import shared_data; "
                   "print(shared_data.shared_data('cifar10', 'unpack.py'))\"")
            .out;
    };
    ASSERT_EQ(run("chmod -R go-w " + dir.path("shared")).code, 0);
    EXPECT_EQ(found(), unpack + "\n");
    for (const char* part : {"shared", "shared/data/cifar10", "shared/data/cifar10/unpack.py"}) {
        ASSERT_EQ(run("chmod o+w " + dir.path(part)).code, 0);
        EXPECT_EQ(found(), "\n") << part;
        ASSERT_EQ(run("chmod o-w " + dir.path(part)).code, 0);
    }
    ASSERT_EQ(run("cd " + dir.path() + " && mv shared elsewhere && ln -s elsewhere shared").code, 0);
    EXPECT_EQ(found(), "\n") << "a link";
}

// A source package's setup.py would run before its SHA-256 is checked.
TEST(Deps, PipTakesWheelsOnly) {
    int calls = 0;
    for (const char* script : {".ci/deps.sh", ".ci/style.sh", "tests/cuda12.sh"}) {
        std::istringstream lines(std::regex_replace(read_file(script), std::regex("\\\\\n *"), ""));
        for (std::string line; std::getline(lines, line);) {
            if (!std::regex_search(line, std::regex("-m pip .*(download|install) "))) continue;
            EXPECT_NE(line.find("--only-binary=:all:"), std::string::npos) << script << ": " << line;
            ++calls;
        }
    }
    EXPECT_EQ(calls, 6);
}

// Without one, a newer release would be installed, even of a package that others have taken over.
TEST(Deps, PackagesForTestsHaveVersions) {
    const std::string script = read_file(".ci/deps.sh");
    const std::regex lists(R"(\n  (?:local packages=\(| *[a-z]+\) for_tests [a-z]+ '[^']+' [a-z0-9,]+ )([^"\n;)]+))");
    int packages = 0;
    for (std::sregex_iterator list(script.begin(), script.end(), lists), end; list != end; ++list) {
        std::istringstream words((*list)[1]);
        for (std::string word; words >> word; ++packages)
            EXPECT_TRUE(std::regex_match(word, std::regex("[a-z0-9-]+==[0-9.]+"))) << word;
    }
    EXPECT_EQ(packages, 8);
}

TEST(Deps, NoModuleOfTheCheckoutsFolderIsImported) {
    if (run("/usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'").code != 0)
        GTEST_SKIP() << "this Python cannot leave out the current folder";
    const TempDir dir;
    for (const char* name : {"h5py", "matplotlib", "pip", "PIL", "json"})
        write_file(dir.path(std::string(name) + ".py"), "open('" + dir.path("ran") + "', 'w')\n");
    ASSERT_EQ(run("cp -r .ci " + dir.path()).code, 0);
    EXPECT_NE(run("bash " + dir.path(".ci/deps.sh") + " info").out.find("h5py"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(dir.path("ran")));
}

// A fresh checkout whose pip reaches no network, and a Python of the user's without PyTorch.
TEST(Deps, WithoutPyTorchAComparisonSaysWhatItNeeds) {
    const TempDir dir;
    write_file(dir.path("bin/python"), "#!/bin/sh\nexit 1\n");
    ASSERT_EQ(run("chmod +x " + dir.path("bin/python") + " && cp -r .ci " + dir.path()).code, 0);
    const std::string script = "bash " + dir.path(".ci/deps.sh") + " peers test-interchange timm==1.0.31",
                      python = dir.path("bin/python");
    for (const char* setting : {"PYTHON=", "PEER_PYTHON="}) {
        const Finished f = run("env " + std::string(setting) + python + " " + script);
        EXPECT_EQ(f.code, 1) << f.out;
        EXPECT_EQ(f.err.find('\n'), f.err.size() - 1) << f.err;
        for (const char* words : {"torch, torchvision, safetensors, h5py, numpy, timm", "PEER_PYTHON"})
            EXPECT_NE(f.err.find(words), std::string::npos) << f.err;
    }
    EXPECT_NE(run("env PYTHON=" + python + " " + script).err.find("make test-interchange PEER_PYTHON="),
              std::string::npos);
}

}  // namespace
}  // namespace convoy::test
