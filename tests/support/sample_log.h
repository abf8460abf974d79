// Compares logs with committed samples line by line. A sample equals its log except for numbers,
// which it has as placeholders: %d, %.3f, %6.2f, %.4e as in printf, and %t, a Python timedelta.
#pragma once
#include <string>
#include <vector>

namespace convoy::test {

/// The numbers of a log's lines, by line, and the problem with the log.
struct Compared {
    std::vector<std::vector<double>> numbers;
    std::string problem;  ///< empty if the log matches the sample
};
/// Compares a log with a sample. Each number must be printed as printf would print it.
Compared compare_with_sample(const std::vector<std::string>& log, const std::string& sample_file);

/// Returns the problem with the lines of two ranks' `comm-test --steps 5 --log-format toy`; empty
/// if there is none. Problems are: lines that differ from the sample's, or a sum that differs from
/// the sum of its step's two values.
std::string problem_of_toy_sums(const std::string& out);

std::vector<std::string> lines_of(const std::string& text);
/// Returns what a training printed of its progress: all lines after its plan up to the one that
/// says how it ended, without signs of life.
std::vector<std::string> progress_lines_of(const std::string& out);

}  // namespace convoy::test
