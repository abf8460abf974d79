// The folder of `convoy evaluate --report DIR`: report.html, report.json, classes.csv,
// confusion.csv, mistakes.csv, confusion.png, and mistake-01.png and so on.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "data/shard.h"
#include "report/error_page.h"

namespace convoy {

/// Throws Exit::usage if `dir` is not a folder, or is not empty and `overwrite` is false. Throws
/// Exit::io if it is a link of another user.
void check_report_folder(const std::string& dir, bool overwrite);

/// Returns the figures of a report: keys model, data, split, images, correct, loss, accuracy,
/// accuracy_interval, top5_accuracy, calibration_error, classes, confusion, reliability, mistakes.
nlohmann::ordered_json errors_as_json(const ErrorAnalysis&, const MeasuredModel&);

/// Writes the files of a report. Reads the images of mistakes from `reader`. Large ones are shrunk
/// to a short side of 256 pixels. Vectors give no pictures. Removes pictures of an earlier report.
/// Throws Exit::io, and Exit::bad_input as SplitReader::read() does.
void write_report(const std::string& dir, const ErrorAnalysis&, const MeasuredModel&, const SplitReader& reader);

}  // namespace convoy
