// Helpers of end-to-end tests. They start build/convoy with mpirun under a time limit, so that a
// hang becomes a failure. They also read what a run left behind: columns of metrics.h5, tensors of
// model.h5, the counts of an evaluation.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace convoy::test {

/// Returns `command` without this process's MPI environment, with a limit of `seconds`. Variables
/// that locate OpenMPI are kept, because a bundle sets them.
std::string with_limit(const std::string& command, int seconds);
/// Returns the command line of launch(), for tests that start it in the background. Ranks share all
/// cores: `--bind-to none`.
std::string launch_command(int ranks, const std::string& arguments, int seconds = 60);
/// Runs `convoy ARGUMENTS` on `ranks` ranks from the repository root. Ends it after `seconds` with
/// code 124.
Finished launch(int ranks, const std::string& arguments, int seconds = 60);
/// Runs mpirun with the test's own command line: "-np 1 A --data x : -np 1 A --data y". The limit
/// is that of launch().
Finished mpirun(const std::string& contexts, int seconds = 60);
/// Runs `convoy ARGUMENTS` as one process without mpirun. The limit is that of launch().
Finished convoy_alone(const std::string& arguments, int seconds = 60);

/// Runs `command`, a training into `run_dir`, until its metrics have `rows` rows of /system, and
/// then stops it. The code is the training's.
Finished sampled(const std::string& command, const std::string& run_dir, int rows);

/// Returns the problem with a run that must succeed; empty if there is none: EXPECT_EQ("",
/// failure(launch(…))).
std::string failure(const Finished&);
/// Runs the calling test again on `ranks` ranks of the test program. Returns the problem; empty if
/// there is none. For a test whose body needs several ranks: on one rank it only calls this
/// function, otherwise test_comm() has all of them.
std::string problem_on_ranks(int ranks);
/// Returns the problem with a run that must fail; empty if there is none. Problems are: another
/// exit code; not exactly one line on stderr that starts with "convoy:"; a line without one of
/// `words`. Lines of mpirun itself do not count.
std::string refusal(const Finished&, Exit code, const std::vector<std::string>& words);

/// Returns the value of `key` in a recipe or a printed configuration; "" if it is not set there.
std::string value_in(const std::string& config, const std::string& key);

/// Makes a synthetic data set. `size` has the form "28x28x1".
void make_data(const std::string& dir, int images, int test_images, const std::string& size, int shards = 2,
               int classes = 10);

/// Returns one numeric column of RUN/metrics.h5, for example "train/loss".
std::vector<double> column(const std::string& run_dir, const std::string& name);
/// Returns every tensor of a model file by name.
std::map<std::string, std::vector<float>> tensors(const std::string& model_file);

/// Returns the largest |a / b - 1|; infinite if the sizes differ or a value is not finite.
double deviation(const std::vector<double>& a, const std::vector<double>& b);

/// Result that `convoy evaluate` or the last evaluation of `convoy train` printed.
struct Score {
    double loss = -1;
    long long correct = -1, images = -1;
};
Score score_of(const std::string& out);

/// Adds a row to the table of faults that `make test-faults` prints. The test has checked that the
/// observed result is the promised one.
void record_fault(const std::string& fault, const std::string& promised, const std::string& observed, int runs);

/// Counts the occurrences of `what` in `text`.
int count(const std::string& text, const std::string& what);

}  // namespace convoy::test
