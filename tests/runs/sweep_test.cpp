// convoy sweep, started as users start it: what it trains, what it leaves, and how it is stopped
// and continued. Which trainings it starts is in unit/sweep_spec_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Sweep : public testing::Test {
protected:
    static void SetUpTestSuite() {
        folder_ = new TempDir;
        make_data(folder_->path("data"), 1024, 16, "28x28x1");
    }
    static void TearDownTestSuite() { delete folder_; }

    /// The arguments of a sweep over tiny trainings.
    std::string sweep(const std::string& varied, const std::string& more = "") const {
        return "sweep " + varied + " --device cpu --threads 1 --model mnist-linear --batch-size 16 --data " +
               folder_->path("data") + " --output " + out_.path("sweep") + " " + more;
    }
    std::string run_of(const std::string& name) const { return out_.path("sweep/" + name); }
    /// Names of the checkpoints of a run.
    int checkpoints(const std::string& name) const {
        int found = 0;
        for (const auto& entry : fs::recursive_directory_iterator(run_of(name)))
            found += entry.path().filename().string().starts_with("step-");
        return found;
    }

    static TempDir* folder_;
    TempDir out_;
};
TempDir* Sweep::folder_ = nullptr;

TEST_F(Sweep, TrainsEachValueAndComparesThem) {
    const std::string arguments = sweep("lr=0.001,0.01 seed=1,2", "--epochs 1");
    const Finished f = convoy_alone(arguments);
    ASSERT_EQ("", failure(f));
    const size_t table = f.out.rfind("\nrun ");
    ASSERT_NE(table, std::string::npos) << f.out;
    for (const char* name : {"lr-0.001,seed-1", "lr-0.001,seed-2", "lr-0.01,seed-1", "lr-0.01,seed-2"}) {
        EXPECT_EQ(column(run_of(name), "train/step").size(), 64u) << name;
        EXPECT_NE(f.out.find(run_of(name) + " ", table), std::string::npos) << f.out;
        EXPECT_EQ(checkpoints(name), 0) << name;
    }
    const std::string head = f.out.substr(table + 1, f.out.find('\n', table + 1) - table - 1);
    EXPECT_NE(head.find(" lr "), std::string::npos) << "the options that differ have columns: " << head;
    EXPECT_NE(head.find(" seed "), std::string::npos) << head;

    const auto written = fs::last_write_time(run_of("lr-0.01,seed-2") + "/model.h5");
    const Finished again = convoy_alone(arguments);
    ASSERT_EQ("", failure(again));
    EXPECT_EQ(count(again.out, "done: the run had ended already"), 4) << again.out;
    EXPECT_EQ(fs::last_write_time(run_of("lr-0.01,seed-2") + "/model.h5"), written) << "what is done is not redone";
    EXPECT_NE(again.out.rfind("\nrun "), std::string::npos) << "the table comes again";
}

// mpirun deletes what lies below its folder, even if another user made that folder.
TEST_F(Sweep, LetsMpirunUseNoFolderThatAnotherUserMade) {
    if (run("test $(id -u) = 0 && setpriv --version").code != 0) GTEST_SKIP() << "needs root and setpriv";
    const std::string host = run("hostname").out, temporary = out_.path("temporary"),
                      folder = temporary + "/ompi." + host.substr(0, host.find('\n')) + ".23457";
    ASSERT_EQ(run("mkdir -p " + folder + "/pid.1 && touch " + folder + "/pid.1/keep && chown -R 23458 " + folder +
                  " && chmod -R 777 " + folder_->path() + " " + out_.path())
                  .code,
              0);
    const Finished f =
        run(with_limit("setpriv --reuid 23457 --regid 23457 --clear-groups env -u "
                       "OMPI_MCA_orte_tmpdir_base -u PRTE_MCA_prte_tmpdir_base TMPDIR=" +
                           temporary + " HOME=" + out_.path() + " " + sibling("convoy") + " " +
                           sweep("lr=0.01", "--ranks 2 --max-steps 2"),
                       60));
    EXPECT_EQ("", failure(f)) << f.err;
    EXPECT_TRUE(fs::exists(folder + "/pid.1/keep"));
    EXPECT_EQ(run("find /tmp -maxdepth 1 -name 'convoy-sweep-*' -user 23457").out, "");
}

// In a job, mpirun may start daemons on other hosts, where another user could make a folder in /tmp
// before. mpirun's files, on all hosts, are in the user's home then.
TEST_F(Sweep, LetsMpirunUseTheUsersHomeInAJob) {
    const std::string home = out_.path("home"), settings = out_.path("settings"),
                      cache = home + "/.cache/convoy/mpirun";
    fs::create_directory(home);
    const auto swept = [&](const std::string& variables, const std::string& arguments) {
        return run(
            with_limit("env -u SLURM_JOB_ID -u PBS_NODEFILE -u XDG_CACHE_HOME -u OMPI_MCA_orte_tmpdir_base -u "
                       "PRTE_MCA_prte_tmpdir_base HOME=" +
                           home + " " + variables + " " + sibling("convoy") + " " + arguments,
                       60));
    };
    const std::string job = "OMPI_MCA_orte_default_hostfile=none PRTE_MCA_prte_default_hostfile=none";
    const Finished f = swept(job, sweep("lr=0.01", "--ranks 2 --max-steps 2"));
    EXPECT_EQ("", failure(f)) << f.err;
    EXPECT_TRUE(fs::is_directory(cache));

    // A stand-in for mpirun writes down what it is told.
    write_file(out_.path("bin/mpirun"), "#!/bin/sh\nenv | grep _tmpdir_base= | sort >" + settings + "\n");
    fs::permissions(out_.path("bin/mpirun"), fs::perms(0755));
    const auto told = [&](const std::string& variables) {
        swept(variables + " PATH=" + out_.path("bin") + ":$PATH", sweep("seed=3", "--ranks 2"));
        return read_file(settings);
    };
    EXPECT_EQ(told("SLURM_JOB_ID=1"),
              "OMPI_MCA_orte_tmpdir_base=" + cache + "\nPRTE_MCA_prte_tmpdir_base=" + cache + "\n");
    EXPECT_EQ(count(told(""), "_MCA_orte_tmpdir_base=/tmp/convoy-sweep-"), 1) << "on one host";
    const std::string own = "OMPI_MCA_orte_tmpdir_base=" + home;
    EXPECT_EQ(told(job + " " + own), own + "\n") << "the user's own folder stays";
    fs::create_directory(out_.path("theirs"));
    fs::permissions(out_.path("theirs"), fs::perms(0777));
    const Finished theirs = swept("SLURM_JOB_ID=1 HOME=" + out_.path("theirs"), sweep("seed=4", "--ranks 2"));
    EXPECT_EQ(theirs.code, 2);
    EXPECT_NE(theirs.err.find(out_.path("theirs") + " may be written by others, and has no sticky bit; set OMPI_"),
              std::string::npos)
        << theirs.err;
    // Folders above the target of a link count, too.
    fs::create_directories(out_.path("theirs/cache"));
    fs::create_directory(out_.path("linked"));
    fs::create_directory_symlink(out_.path("theirs/cache"), out_.path("linked/.cache"));
    const Finished linked = swept("SLURM_JOB_ID=1 HOME=" + out_.path("linked"), sweep("seed=4", "--ranks 2"));
    EXPECT_EQ(linked.code, 2);
    EXPECT_NE(linked.err.find(out_.path("theirs") + "/cache/convoy/mpirun, which is not in HOME on all hosts; set"),
              std::string::npos)
        << linked.err;
    const Finished nowhere = swept("SLURM_JOB_ID=1 HOME=", sweep("seed=4", "--ranks 2"));
    EXPECT_EQ(nowhere.code, 2);
    EXPECT_NE(nowhere.err.find("HOME names no folder for its files there; set OMPI_MCA_orte_tmpdir_base"),
              std::string::npos)
        << nowhere.err;
}

// Another user could prepare finished runs under a name that the clock tells.
TEST_F(Sweep, MakesItsFolderIfNoneIsNamed) {
    const Finished prepared = run("cd " + out_.path() +
                                  " && now=$(date +%s) && for i in $(seq 0 59); do "
                                  "mkdir -p output/$(date -d @$((now + i)) +sweep-%Y%m%d-%H%M%S); done");
    ASSERT_EQ("", failure(prepared));
    const Finished f = run("cd " + out_.path() + " && " +
                           with_limit(sibling("convoy") +
                                          " sweep lr=0.01 --device cpu --threads 1 --model mnist-linear --batch-size "
                                          "16 --max-steps 2 --data " +
                                          folder_->path("data"),
                                      60));
    ASSERT_EQ("", failure(f));
    for (const auto& folder : fs::directory_iterator(out_.path("output")))
        EXPECT_EQ(fs::is_empty(folder), !folder.path().string().ends_with("-2")) << folder.path();
    EXPECT_NE(f.out.find("-2/lr-0.01"), std::string::npos) << f.out;
}

TEST_F(Sweep, NamesTheOwnerOfARunThatIsDone) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's files";
    const std::string arguments = sweep("lr=0.01", "--max-steps 2");
    const Finished own = convoy_alone(arguments), again = convoy_alone(arguments);
    ASSERT_EQ("", failure(own));
    EXPECT_EQ(again.err.find("belongs to"), std::string::npos) << again.err;
    ASSERT_EQ(::chown(run_of("lr-0.01").c_str(), 65534, 65534), 0);
    const Finished theirs = convoy_alone(arguments);
    EXPECT_NE(theirs.out.find("done: the run had ended already"), std::string::npos) << theirs.out;
    EXPECT_NE(theirs.err.find(run_of("lr-0.01") + ": belongs to another user (uid 65534)"), std::string::npos)
        << theirs.err;
}

TEST_F(Sweep, GoesOnAfterATrainingThatFails) {
    const Finished f = convoy_alone(sweep("lr=1e38,0.01", "--epochs 1"));
    EXPECT_EQ(f.code, int(Exit::not_finite)) << f.out << f.err;
    EXPECT_NE(f.out.find("failed: " + run_of("lr-1e38") + ": exit 4, loss not finite"), std::string::npos) << f.out;
    EXPECT_EQ(column(run_of("lr-0.01"), "train/step").size(), 64u);
    EXPECT_NE(f.out.rfind("\nrun "), std::string::npos) << "those that are done are compared: " << f.out;
    EXPECT_NE(f.err.find("sweep: 1 of 2 trainings are done"), std::string::npos) << f.err;
}

// In /tmp another user may make a file where the executable was. The shell starts the executable by
// a descriptor, when another file has its path already.
TEST_F(Sweep, StartsTheFileThatRunsAndNoneThatTookItsPath) {
    const std::string copy = out_.path("convoy"), ran = out_.path("ran");
    for (const std::string ranks : {"", " --ranks 2"}) {
        fs::remove_all(out_.path("sweep"));
        fs::copy_file(sibling("convoy"), copy, fs::copy_options::overwrite_existing);
        fs::permissions(copy, fs::perms::owner_all);
        const Finished f = run("exec 9<" + copy + "; rm " + copy + "; printf '#!/bin/sh\\ntouch " + ran + "\\n' >" +
                               copy + "; chmod 755 " + copy + "; " +
                               with_limit("/proc/self/fd/9 " + sweep("lr=0.001,0.01", "--max-steps 2" + ranks), 60));
        EXPECT_EQ("", failure(f)) << ranks;
        EXPECT_FALSE(fs::exists(ran)) << "the file at the path was started" << ranks;
        for (const char* name : {"lr-0.001", "lr-0.01"})
            EXPECT_EQ(column(run_of(name), "train/step").size(), 2u) << name << ranks;
    }
}

TEST_F(Sweep, StopsWhereItIsInterruptedAndContinuesThere) {
    const std::string arguments = sweep("lr=0.001,0.01", "--epochs 600 --eval-every 0");
    const std::string metrics = run_of("lr-0.001") + "/metrics.jsonl";
    const Finished f =
        run("( " + with_limit(sibling("convoy") + " " + arguments, 60) + " ) & job=$!\n" +
            "for i in $(seq 300); do grep -q '\"step\"' " + metrics + " 2>/dev/null && break; sleep 0.1; done\n" +
            "pkill -INT -f '^" + sibling("convoy") + " sweep .*" + out_.path("sweep") + "'; wait $job");
    EXPECT_EQ(f.code, 130) << f.out << f.err;
    EXPECT_NE(f.err.find("sweep: 0 of 2 trainings are done; continue: "), std::string::npos) << f.err;
    EXPECT_FALSE(fs::exists(run_of("lr-0.01"))) << "the next one does not begin";
    const std::string line = f.err.substr(f.err.find("continue: ") + 10);
    const std::string command = line.substr(0, line.find('\n'));
    EXPECT_NE(command.find(" sweep lr=0.001,0.01 "), std::string::npos) << command;

    const Finished again = run(with_limit(command, 120));
    ASSERT_EQ("", failure(again));
    EXPECT_EQ(count(again.out, "resume    at step"), 1) << again.out;
    EXPECT_EQ(column(run_of("lr-0.001"), "train/step").back(), 38400);
    EXPECT_EQ(column(run_of("lr-0.01"), "train/step").back(), 38400);
}

TEST_F(Sweep, TrainsOnRanksAndIsNoRankItself) {
    const Finished f = convoy_alone(sweep("lr=0.01", "--epochs 1 --ranks 2"));
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(column(run_of("lr-0.01"), "ranks/rank").size(), 2u);
    const Finished none =
        run(with_limit("/usr/bin/env PATH=/nonexistent " + sibling("convoy") + " " + sweep("seed=3", "--ranks 2"), 60));
    EXPECT_EQ("", refusal(none, Exit::usage, {"mpirun is in no folder of PATH"}));
    write_file(out_.path("mpirun"), "#!/bin/sh\ntouch " + out_.path("ran") + "\n");
    fs::permissions(out_.path("mpirun"), fs::perms(0755));
    const std::string there = "cd " + out_.path() + " && PATH=:bin " + fs::absolute(sibling("convoy")).string() + " ";
    EXPECT_EQ("", refusal(run(there + sweep("seed=3", "--ranks 2")), Exit::usage, {"mpirun is in no folder of PATH"}));
    EXPECT_FALSE(fs::exists(out_.path("ran"))) << "an mpirun of the current folder";
    EXPECT_EQ("", refusal(launch(1, sweep("lr=0.01")), Exit::usage, {"without a launcher", "--ranks"}));
}

// Another user may put a file at the executable's path while mpirun starts. On this host, mpirun
// gets the file that runs.
TEST_F(Sweep, MpirunIsGivenTheFileThatRuns) {
    write_file(out_.path("bin/mpirun"), "#!/bin/sh\necho \"$3\" > " + out_.path("started") + "\n");
    fs::permissions(out_.path("bin/mpirun"), fs::perms(0755));
    const auto started = [&](const std::string& settings) {
        run("env " + settings + " PATH=" + out_.path("bin") + ":/usr/bin:/bin " + sibling("convoy") + " " +
            sweep("seed=3", "--ranks 2"));
        return read_file(out_.path("started"));
    };
    const std::string here = started("-u SLURM_JOB_ID -u PBS_NODEFILE");
    EXPECT_TRUE(here.starts_with("/proc/") && here.ends_with("/exe\n")) << here;
    EXPECT_EQ(started("SLURM_JOB_ID=7"), fs::canonical(sibling("convoy")).string() + "\n");
}

TEST_F(Sweep, AnotherUsersLinkForTheRunsIsRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make links of another user";
    fs::create_directory(out_.path("old"));
    fs::create_directory_symlink(out_.path("old"), out_.path("sweep"));
    const Finished own = convoy_alone(sweep("lr=0.1", "--max-steps 1"));
    EXPECT_EQ("", failure(own));
    EXPECT_NE(own.out.find("is a link: the runs are written in " + out_.path("old")), std::string::npos) << own.out;
    ASSERT_EQ(::lchown(out_.path("sweep").c_str(), 65534, 65534), 0);
    EXPECT_EQ("", refusal(convoy_alone(sweep("lr=0.2")), Exit::io, {out_.path("sweep"), "another user"}));
    EXPECT_FALSE(fs::exists(out_.path("old/lr-0.2")));
}

// In a received folder it may lead to any run of the user.
TEST_F(Sweep, ALinkInItsFolderIsRefused) {
    write_file(out_.path("mine/model.h5"), "mine");
    fs::create_directory(out_.path("sweep"));
    fs::create_directory_symlink(out_.path("mine"), run_of("lr-0.2"));
    EXPECT_EQ("", refusal(convoy_alone(sweep("lr=0.1,0.2")), Exit::io, {run_of("lr-0.2") + ": is a link"}));
    EXPECT_FALSE(fs::exists(run_of("lr-0.1"))) << "nothing was trained";
}

TEST_F(Sweep, RefusesBeforeItTrains) {
    EXPECT_EQ("", refusal(convoy_alone(sweep("lrr=1,2")), Exit::usage, {"--lrr", "did you mean --lr?"}));
    EXPECT_EQ("", refusal(convoy_alone(sweep("lr=0.1,fast")), Exit::usage, {"fast"}));
    EXPECT_FALSE(fs::exists(out_.path("sweep")));
}

TEST_F(Sweep, OfADryRunWritesNothing) {
    const Finished f = convoy_alone(sweep("lr=0.1,0.2", "--dry-run"));
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, "sweep     "), 2) << f.out;
    EXPECT_FALSE(fs::exists(out_.path("sweep")));
}

}  // namespace
}  // namespace convoy::test
