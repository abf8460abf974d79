// RUN/stalled/rank-N.txt: the operation of each rank when the watchdog ended the job. Other users
// may be able to write to the run folder, so links are not followed and pipes never block.
#pragma once
#include <optional>
#include <string>

#include "base/held_folder.h"

namespace convoy {

class StallReports {
public:
    /// Opens the folder, creating it if necessary.
    explicit StallReports(const std::string& folder);
    /// Opens the folder `name` in `above`, creating it if necessary.
    StallReports(const HeldFolder& above, const std::string& name);

    /// Returns false if the folder cannot be created or opened, or is a link.
    bool usable() const { return folder_.has_value(); }
    /// Replaces the report of a rank; errors are ignored.
    void write(int rank, const std::string& line) const;
    /// Returns the report of a rank; empty if there is none.
    std::string read(int rank) const;

private:
    std::optional<HeldFolder> folder_;
};

}  // namespace convoy
