// The end time of a Slurm job, before which a training stops. It is obeyed if it may belong to this
// job; otherwise it is only mentioned.
#include "cli/time_limit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class TimeLimits : public testing::Test {
protected:
    void SetUp() override { clear(); }
    void TearDown() override { clear(); }
    static void clear() {
        for (const char* name : {"SLURM_JOB_END_TIME", "SLURM_JOB_ID"}) unsetenv(name);
    }
    static std::string set_end(double seconds_from_now) {
        const std::string text = std::to_string(std::time(nullptr) + int64_t(seconds_from_now));
        setenv("SLURM_JOB_END_TIME", text.c_str(), 1);
        return "SLURM_JOB_END_TIME=" + text;
    }
    TimeLimit limit(double option = 0) { return time_limit_of(option, root_.path()); }
    /// Returns seconds until the deadline; -1: there is none.
    static double left(const TimeLimit& l) { return l.deadline ? -seconds_since(*l.deadline) : -1; }
    void in_group(const std::string& lines) { write_file(root_.path("proc/self/cgroup"), lines); }

    TempDir root_;
};

TEST_F(TimeLimits, WithoutAJobThereIsNone) {
    EXPECT_EQ(left(limit()), -1);
    EXPECT_NEAR(left(limit(90)), 90, 5);
    setenv("SLURM_JOB_END_TIME", "", 1);
    EXPECT_EQ(left(limit()), -1) << "empty is as not set";
    EXPECT_EQ(limit().warning + limit().note, "");
}

TEST_F(TimeLimits, TheEndOfTheJobIsObeyedAndNamed) {
    const std::string end = set_end(5000);
    EXPECT_NEAR(left(limit()), 5000, 30) << "the clock goes on while this test runs";
    EXPECT_NE(limit().note.find("before " + end + "; --time-limit"), std::string::npos) << limit().note;
    EXPECT_NE(limit().name.find("SLURM_JOB_END_TIME"), std::string::npos);
    EXPECT_NEAR(left(limit(90)), 90, 5) << "what is given wins";
    EXPECT_EQ(limit(90).note, "");
    setenv("SLURM_JOB_ID", "7", 1);
    for (const char* same :
         {"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n", "4:memory:/slurm/uid_0/job_7/step_batch\n",
          "0::/user.slice/session-3.scope\n", "0::/\n"}) {
        in_group(same);
        EXPECT_NEAR(left(limit()), 5000, 30) << same;
        EXPECT_NE(limit().note.find(end + " of job 7"), std::string::npos) << limit().note;
    }
    setenv("SLURM_JOB_END_TIME", "1e20", 1);
    EXPECT_NEAR(left(limit()), 365 * 86400, 30) << "what no clock holds is no nearer than a year";
    setenv("SLURM_JOB_END_TIME", "soon", 1);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"SLURM_JOB_END_TIME=soon", "--time-limit"}, [&] { limit(); }));
}

TEST_F(TimeLimits, AnEndThatIsPastIsNamedAndNotObeyed) {
    for (const double past : {1.0, 86400.0, 4e8}) {
        const std::string end = set_end(-past);
        EXPECT_EQ(left(limit()), -1) << past;
        EXPECT_NE(limit().warning.find(end + " is past"), std::string::npos) << limit().warning;
        EXPECT_EQ(limit().note, "");
    }
    setenv("SLURM_JOB_END_TIME", "0", 1);
    EXPECT_EQ(left(limit()), -1);
    EXPECT_NE(limit().warning, "");
    EXPECT_EQ(limit(90).warning, "") << "--time-limit wins over the variable";
}

TEST_F(TimeLimits, TheEndOfAnotherJobIsNamedAndNotObeyed) {
    const std::string end = set_end(5000);
    setenv("SLURM_JOB_ID", "7", 1);
    for (const char* other : {"0::/system.slice/slurmstepd.scope/job_70/step_0/user/task_0\n",
                              "9:cpuset:/\n4:memory:/slurm/uid_0/job_70/step_batch\n0::/\n"}) {
        in_group(other);
        EXPECT_EQ(left(limit()), -1) << other;
        EXPECT_NE(limit().warning.find(end + " is of Slurm job 7, and this process runs in job 70"), std::string::npos)
            << limit().warning;
    }
}

// A tmux or JupyterHub that was started in a job keeps the job's variable.
TEST_F(TimeLimits, ALeftOverVariableEndsNoTraining) {
    make_data(root_.path("data"), 60, 20, "28x28x1");
    const std::string end = set_end(-3600), train = "train --model mnist-linear --batch-size 20 --max-steps 3 --data " +
                                                    root_.path("data") + " --output " + root_.path("run");
    const Finished f = convoy_alone(train);
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(count(f.err, "warning: " + end), 1) << f.err;
    EXPECT_EQ(column(root_.path("run"), "train/step").size(), 3u);
    const Finished dry = convoy_alone(train + "2 --dry-run");
    EXPECT_EQ("", failure(dry));
    EXPECT_EQ(count(dry.err, "warning: " + end), 1) << dry.err;
}

}  // namespace
}  // namespace convoy::test
