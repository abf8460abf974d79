// The folder of `convoy evaluate --report DIR`: report.html, report.json, classes.csv,
// confusion.csv, mistakes.csv, confusion.png, and mistake-01.png and so on.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/held_folder.h"
#include "data/shard.h"
#include "report/error_page.h"

namespace convoy {

/// Returns the figures of a report: keys model, data, split, images, correct, loss, accuracy,
/// accuracy_interval, top5_accuracy, calibration_error, classes, confusion, reliability, mistakes.
nlohmann::ordered_json errors_as_json(const ErrorAnalysis&, const MeasuredModel&);

/// The folder of a report. It is opened before the model is measured, and stays open, because
/// another user may put another folder at its path meanwhile. If it is missing, write() makes it.
class ReportFolder {
public:
    /// Opens the folder if it is there. Throws Exit::usage if `dir` is not a folder, or is not
    /// empty and `overwrite` is false. Throws Exit::io if it is a link of another user.
    ReportFolder(const std::string& dir, bool overwrite);

    const std::string& path() const { return dir_; }
    /// Returns a warning if other users can change what lies there; else empty.
    std::string warning() const;
    /// Writes the files of a report. Reads the images of mistakes from `reader`. Large ones are
    /// shrunk to a short side of 256 pixels. Vectors give no pictures. With `overwrite`, replaces
    /// the files of an earlier report, and removes its pictures. Throws Exit::io, also if the
    /// folder was missing and something has taken its path. Throws Exit::bad_input as
    /// SplitReader::read() does.
    void write(const ErrorAnalysis&, const MeasuredModel&, const SplitReader& reader) const;

private:
    std::string dir_;
    bool overwrite_;
    std::optional<HeldFolder> there_;
};

}  // namespace convoy
