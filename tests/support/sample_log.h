// Logs compared with committed samples, line by line. A sample is what a log is, but for its
// numbers: %d, %.3f, %6.2f, %.4e as of printf, and %t, a Python timedelta.
#pragma once
#include <string>
#include <vector>

namespace convoy::test {

/// The numbers of a log's lines, by line; what is wrong with it.
struct Compared {
    std::vector<std::vector<double>> numbers;
    std::string problem;  ///< empty if the log is as the sample
};
/// Each number must be what printf makes of it.
Compared compare_with_sample(const std::vector<std::string>& log, const std::string& sample_file);

/// What is wrong with the lines of two ranks' `comm-test --steps 5 --log-format toy`, empty if
/// nothing: others than the sample's, or a sum that is not that of the two values of its step.
std::string problem_of_toy_sums(const std::string& out);

std::vector<std::string> lines_of(const std::string& text);
/// What a training printed of its progress: all lines after its plan, but for signs of life, to the
/// one that says how it ended.
std::vector<std::string> progress_lines_of(const std::string& out);

}  // namespace convoy::test
