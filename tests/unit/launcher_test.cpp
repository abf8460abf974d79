// Properties of the launchers of OpenMPI 4 and 5.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "comm/launcher.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

TEST(Launcher, TimeUntilTheKillIsThatOfTheVersion) {
    struct Case {
        const char* library;
        double to_term, to_kill;
    };
    for (const Case& c : {Case{"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", 1, 2},
                          Case{"Open MPI v5.0.7, ident", 0.25, 0.5}, Case{"Open MPI v10.1.0", 0.25, 0.5},
                          Case{"MPICH Version: 4.0.2", 1, 2}, Case{"", 1, 2}}) {
        EXPECT_EQ(launcher_grace(c.library).to_term, c.to_term) << c.library;
        EXPECT_EQ(launcher_grace(c.library).to_kill, c.to_kill) << c.library;
    }
}

TEST(Launcher, TheLibraryThatRunsIsAsked) {
    const double to_kill = launcher_grace().to_kill;
    EXPECT_TRUE(to_kill == 2 || to_kill == 0.5) << to_kill;
}

constexpr const char* isolated = "OMPI_MCA_ess_singleton_isolated";
constexpr const char* folders = "OMPI_MCA_orte_create_session_dirs";
constexpr const char* messages = "OMPI_MCA_pml";
constexpr const char* transports = "OMPI_MCA_btl";
constexpr const char* session = "OMPI_MCA_orte_top_session_dir";
constexpr const char* ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};

/// Starts every test without these variables, and restores them.
class LauncherEnvironment : public testing::Test {
protected:
    LauncherEnvironment() {
        for (const char* name :
             {isolated, folders, messages, transports, session, ranks[0], ranks[1], ranks[2], ranks[3]}) {
            if (const char* value = std::getenv(name))
                before_[name] = value;
            else
                before_[name] = std::nullopt;
            unsetenv(name);
        }
    }
    ~LauncherEnvironment() override {
        for (const auto& [name, value] : before_) {
            if (value)
                setenv(name.c_str(), value->c_str(), 1);
            else
                unsetenv(name.c_str());
        }
    }
    static std::string value(const char* name) {
        const char* text = std::getenv(name);
        return text ? text : "not set";
    }

private:
    std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(LauncherEnvironment, AProcessWithoutALauncherStartsAlone) {
    {
        const SingleProcess single;
        EXPECT_EQ(value(isolated), "1");
        EXPECT_EQ(value(folders), "0");
        EXPECT_EQ(value(messages), "ob1");
        EXPECT_EQ(value(transports), "self");
    }
    for (const char* name : {isolated, folders, messages, transports})
        EXPECT_EQ(value(name), "not set") << name << ": what this process starts must not inherit it";
}

// OpenMPI 5 uses the folder /tmp/ompi.HOST.UID of anybody, and deletes through links in it.
TEST_F(LauncherEnvironment, OpenMpi5GetsAFolder) {
    const TempDir dir;
    const char* before = std::getenv("TMPDIR");
    const std::string restored = before ? before : "";
    for (const std::string& given : {dir.path(), std::string()}) {
        given.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", given.c_str(), 1);
        std::optional<OwnFolder> folder;
        {
            const SingleProcess single("Open MPI v5.0.7, package: Debian OpenMPI");
            folder = single.folder();
            ASSERT_TRUE(folder);
            EXPECT_EQ(value("TMPDIR"), folder->path());
            EXPECT_EQ(folder->path().rfind((given.empty() ? "/tmp" : given) + "/convoy-mpi-", 0), 0u);
            EXPECT_EQ(std::filesystem::status(folder->path()).permissions(), std::filesystem::perms::owner_all);
        }
        EXPECT_EQ(value("TMPDIR"), given.empty() ? "not set" : given);
        EXPECT_FALSE(folder->remove());
    }
    // Others may rename in such a folder, and OpenMPI uses the path.
    std::filesystem::permissions(dir.path(), std::filesystem::perms::group_write, std::filesystem::perm_options::add);
    for (const std::string& unsafe : {dir.path(), std::string("relative")}) {
        setenv("TMPDIR", unsafe.c_str(), 1);
        const SingleProcess single("Open MPI v5.0.7");
        ASSERT_TRUE(single.folder());
        EXPECT_EQ(single.folder()->path().rfind("/tmp/convoy-mpi-", 0), 0u);
        EXPECT_FALSE(single.folder()->remove());
    }
    // Without a folder, OpenMPI would use the one of anybody.
    setenv("TMPDIR", "/proc/self", 1);
    EXPECT_EQ("", problem_of_error(Exit::io, {"/convoy-mpi-", "set TMPDIR"},
                                   [] { SingleProcess("Open MPI v5.0.7").folder(); }));
    restored.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", restored.c_str(), 1);
    EXPECT_FALSE(SingleProcess("Open MPI v4.1.4").folder());
}

TEST_F(LauncherEnvironment, ALaunchedRankIsLeftToItsLauncher) {
    for (const char* rank : ranks) {
        setenv(rank, "0", 1);
        // Each batch script has SLURM_PROCID. OpenMPI would start its daemon there.
        const bool launched = rank != std::string("SLURM_PROCID");
        const SingleProcess single;
        for (const char* name : {isolated, folders, messages, transports})
            EXPECT_EQ(value(name) == "not set", launched) << rank;
        EXPECT_EQ(is_launched(), launched);
        EXPECT_EQ(launched_rank(), 0);
        setenv(rank, "3", 1);
        EXPECT_EQ(launched_rank(), 3) << rank;
        unsetenv(rank);
    }
}

TEST_F(LauncherEnvironment, WhatTheUserChoseStays) {
    setenv(isolated, "0", 1);
    setenv(messages, "ucx", 1);
    setenv(transports, "tcp,self", 1);
    for (int before_and_after = 0; before_and_after < 2; ++before_and_after) {
        EXPECT_EQ(value(isolated), "0");
        EXPECT_EQ(value(messages), "ucx");
        EXPECT_EQ(value(transports), "tcp,self");
        const SingleProcess single;
        EXPECT_EQ(value(isolated), "0");
        EXPECT_EQ(value(messages), "ucx");
        EXPECT_EQ(value(transports), "tcp,self");
    }
}

// `plot` starts its Python when MPI is up. A stand-in writes down where its parent listens.
TEST_F(LauncherEnvironment, AProcessWithoutALauncherListensNowhere) {
    const TempDir dir;
    write_file(dir.path("look"),
               "#!/bin/bash\nfor file in /proc/$PPID/fd/*; do socket=$(readlink $file)\n"
               "[[ $socket != socket:* ]] || awk -v socket=\"${socket//[^0-9]/}\" '$4 == \"0A\" && $10 == socket' "
               "/proc/net/tcp /proc/net/tcp6; done >" +
                   dir.path("ports") + "\nexit 1\n");
    ASSERT_EQ(run("chmod +x " + dir.path("look")).code, 0);
    const std::string plot = "PYTHON=" + dir.path("look") + " " + sibling("convoy") + " plot " + dir.path("run");
    run(with_limit("env -u OMPI_MCA_btl " + plot, 30));
    EXPECT_EQ(read_file(dir.path("ports")), "");
    run(with_limit("env OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1 " + plot, 30));
    if (read_file(dir.path("ports")).empty()) GTEST_SKIP() << "this MPI opens no port in any case";
}

TEST_F(LauncherEnvironment, AFolderOfMpirunThatOthersMayWriteIsRefused) {
    const TempDir dir;
    const auto refusal = [&](const char* name) -> std::string {
        setenv(session, dir.path(name).c_str(), 1);
        try {
            check_session_folder();
        } catch (const Error& error) {
            EXPECT_EQ(error.code, Exit::usage);
            return error.what();
        }
        return "";
    };
    check_session_folder();  // it is not known
    EXPECT_EQ(refusal("absent"), "");
    std::filesystem::create_directory(dir.path("own"));
    ASSERT_EQ(chmod(dir.path("own").c_str(), 0755), 0);
    EXPECT_EQ(refusal("own"), "");
    ASSERT_EQ(symlink(dir.path("own").c_str(), dir.path("link").c_str()), 0);
    EXPECT_EQ(refusal("link"), "mpirun keeps its files in " + dir.path("link") +
                                   ", which is a link: start it with --mca orte_tmpdir_base FOLDER, a folder that "
                                   "only you may write");
    for (const mode_t mode : {0770, 0702, 0777}) {
        ASSERT_EQ(chmod(dir.path("own").c_str(), mode), 0);
        EXPECT_NE(refusal("own").find("may be written by others"), std::string::npos) << mode;
    }
    ASSERT_EQ(chmod(dir.path("own").c_str(), 0700), 0);
    std::filesystem::create_directories(dir.path("above/own"));
    ASSERT_EQ(chmod(dir.path("above/own").c_str(), 0700), 0);
    ASSERT_EQ(chmod(dir.path("above").c_str(), 0777), 0);
    EXPECT_NE(refusal("above/own").find(dir.path("above") + ", which may be written by others, and has no sticky bit"),
              std::string::npos);
    ASSERT_EQ(symlink(dir.path("above/own").c_str(), dir.path("to-own").c_str()), 0);
    std::filesystem::create_directory(dir.path("above/own/session"));
    EXPECT_NE(refusal("to-own/session").find(dir.path("above") + ", which may be written"), std::string::npos)
        << "folders above the target of a link count, too";
    ASSERT_EQ(chmod(dir.path("above").c_str(), 01777), 0);
    EXPECT_EQ(refusal("above/own"), "");
    EXPECT_EQ(refusal("to-own/session"), "");
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
    ASSERT_EQ(chown(dir.path("own").c_str(), 65534, 65534), 0);
    EXPECT_NE(refusal("own").find("belongs to another user"), std::string::npos);
    ASSERT_EQ(chown(dir.path("above").c_str(), 65534, 65534), 0);
    EXPECT_NE(refusal("above/own").find(dir.path("above") + ", which belongs to another user"), std::string::npos);
}

TEST(Launcher, AJobWhoseMpirunSharesItsFolderDoesNotStart) {
    if (launcher_grace().to_term != 1) GTEST_SKIP() << "not OpenMPI 4, whose folder this is";
    const TempDir dir;
    ASSERT_EQ(symlink(dir.path().c_str(), dir.path("link").c_str()), 0);
    // Equals an mpirun that took the link, because in this test its own folder is the user's.
    const Finished f = mpirun("-np 2 env OMPI_MCA_orte_top_session_dir=" + dir.path("link") + " " + sibling("convoy") +
                              " comm-test --steps 2");
    EXPECT_NE(f.code, 0);
    EXPECT_EQ(count(f.err, "which is a link"), 1) << f.err;
    EXPECT_EQ(f.out, "");
}

// Rootless containers run jobs like this. There, /tmp shows the owner 65534 and not root.
TEST(Launcher, AJobInAUserNamespaceThatDoesNotMapRootStarts) {
    const std::string as_a_user =
                          "setpriv --reuid=23459 --regid=23459 --clear-groups env -u "
                          "OMPI_MCA_orte_tmpdir_base -u PRTE_MCA_prte_tmpdir_base -u TMPDIR HOME=/nonexistent ",
                      in_a_namespace = as_a_user + "unshare --user --map-user=23459 --map-group=23459 ";
    if (::geteuid() != 0 || run(in_a_namespace + "true").code != 0)
        GTEST_SKIP() << "needs root, setpriv, and user namespaces for all users";
    if (run(as_a_user + "test -x " + sibling("convoy")).code != 0)
        GTEST_SKIP() << "other users cannot reach the executable";
    ASSERT_EQ(run(in_a_namespace + "stat --format=%u /tmp").out, "65534\n");
    const Finished f = run(with_limit(in_a_namespace + "mpirun --oversubscribe --bind-to none -np 2 " +
                                          sibling("convoy") + " comm-test --device cpu --steps 2",
                                      60));
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(f.err, "");
}

// It would keep its files there in a folder that another user may have made.
TEST(Launcher, TheMainJobStartsNoDaemonOnOtherHosts) {
    const TempDir dir;
    write_file(dir.path("build/convoy"), "#!/bin/sh\ntouch " + dir.path("ran") + "\n");
    write_file(dir.path("agent"), "#!/bin/sh\ntouch " + dir.path("called") + "\nexit 1\n");
    write_file(dir.path("hosts"), "localhost slots=1\nelsewhere.invalid slots=1\n");
    ASSERT_EQ(run("chmod +x " + dir.path("build/convoy") + " " + dir.path("agent")).code, 0);
    std::string several = "env BUILD=" + dir.path("build") + " RUN=" + dir.path("run");
    for (const char* setting : {" OMPI_MCA_orte_default_hostfile=", " PRTE_MCA_prte_default_hostfile="})
        several += setting + dir.path("hosts");
    for (const char* setting : {" OMPI_MCA_plm_rsh_agent=", " PRTE_MCA_plm_ssh_agent="})
        several += setting + dir.path("agent");
    const Finished f = run(with_limit(several + " bash input/run.sh", 60));
    EXPECT_EQ("", failure(f));
    EXPECT_TRUE(std::filesystem::exists(dir.path("ran")));
    EXPECT_FALSE(std::filesystem::exists(dir.path("called")));
    run(with_limit(several + " mpirun -np 1 true", 60));
    if (!std::filesystem::exists(dir.path("called"))) GTEST_SKIP() << "this mpirun starts no daemons through ssh";
}

TEST(Launcher, ASingleProcessLeavesNoFileBehind) {
    const TempDir dir;
    const std::string temporary = dir.path("temporary");
    std::filesystem::create_directory(temporary);
    const Finished f = run("TMPDIR=" + temporary + " " + sibling("convoy") +
                           " convert synthetic --images 10 --test-images 2 --size 8x8x3 --to " + dir.path("data"));
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_TRUE(std::filesystem::is_empty(temporary));
}

// Single processes share one job number, so those that start at the same moment would make and
// remove one folder.
TEST(Launcher, ASingleProcessMakesNoFolderForItsJob) {
    if (launcher_grace().to_term != 1) GTEST_SKIP() << "not OpenMPI 4, whose folder this is";
    const TempDir dir;
    write_file(dir.path("file"), "");
    const std::string convert = "env -u OMPI_MCA_orte_tmpdir_base TMPDIR=" + dir.path("file") + " " +
                                sibling("convoy") +
                                " convert synthetic --images 10 --test-images 2 --size 8x8x3 --classes 2 --to ";
    const Finished f = run(convert + dir.path("data"));
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_NE(run("OMPI_MCA_orte_create_session_dirs=1 " + convert + dir.path("other")).code, 0)
        << "OpenMPI makes no folder in TMPDIR any more: this test needs another way to see one";
}

}  // namespace
}  // namespace convoy::test
