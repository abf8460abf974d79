// What end-to-end tests share: build/convoy started by mpirun under a time limit, so that a hang is
// a failure and not a hang, and what a run left behind: columns of metrics.h5, tensors of model.h5,
// the counts of an evaluation.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace convoy::test {

/// `command` without this process's MPI environment, ended after `seconds`. Where OpenMPI lies is
/// kept: a bundle says it in variables.
std::string with_limit(const std::string& command, int seconds);
/// The command line of launch(), for tests that start it in the background. Ranks share all cores:
/// `--bind-to none`.
std::string launch_command(int ranks, const std::string& arguments, int seconds = 60);
/// Runs `convoy ARGUMENTS` on `ranks` ranks from the repository root; ended after `seconds`, with
/// code 124.
Finished launch(int ranks, const std::string& arguments, int seconds = 60);
/// As launch, for command lines of the test's own: "-np 1 A --data x : -np 1 A --data y".
Finished mpirun(const std::string& contexts, int seconds = 60);
/// As launch, but without mpirun: one process.
Finished convoy_alone(const std::string& arguments, int seconds = 60);

/// Runs `command`, a training into `run_dir`, until its metrics have `rows` rows of /system, and
/// stops it then. The code is the training's.
Finished sampled(const std::string& command, const std::string& run_dir, int rows);

/// What is wrong with a run that must succeed, empty if nothing: EXPECT_EQ("", failure(launch(…))).
std::string failure(const Finished&);
/// Runs the test that calls this once more, on `ranks` ranks of the test program; what is wrong
/// with that, empty if nothing. For a test whose body needs several ranks: on one it only calls
/// this, else test_comm() has all of them.
std::string problem_on_ranks(int ranks);
/// What is wrong with a run that must fail: another exit code, not exactly one line that starts
/// with "convoy:" on stderr, or one that does not hold every one of `words`. Lines of mpirun itself
/// do not count.
std::string refusal(const Finished&, Exit code, const std::vector<std::string>& words);

/// The value of `key` in a recipe or a printed configuration, "" if it is not set there.
std::string value_in(const std::string& config, const std::string& key);

/// Makes a synthetic data set, `size` as in "28x28x1".
void make_data(const std::string& dir, int images, int test_images, const std::string& size, int shards = 2,
               int classes = 10);

/// One numeric column of RUN/metrics.h5, as "train/loss".
std::vector<double> column(const std::string& run_dir, const std::string& name);
/// Every tensor of a model file, by name.
std::map<std::string, std::vector<float>> tensors(const std::string& model_file);

/// The largest |a / b - 1|; infinite if the sizes differ or a value is not finite.
double deviation(const std::vector<double>& a, const std::vector<double>& b);

/// What `convoy evaluate` or the last evaluation of `convoy train` printed.
struct Score {
    double loss = -1;
    long long correct = -1, images = -1;
};
Score score_of(const std::string& out);

/// A row of the table of faults that `make test-faults` prints; the test has checked that what was
/// promised is what was observed.
void record_fault(const std::string& fault, const std::string& promised, const std::string& observed, int runs);

/// Every place of `what` in `text`, counted.
int count(const std::string& text, const std::string& what);

/// The folder of large shared inputs, ../shared beside the repository; empty if there is none.
std::string shared_folder();

}  // namespace convoy::test
