// RUN/stalled/rank-N.txt: the operation of each rank when the watchdog ended the job. Other users
// may be able to write to the run folder, so links are not followed and pipes never block.
#pragma once
#include <string>

namespace convoy {

class StallReports {
public:
    /// Opens the folder, creating it if necessary.
    explicit StallReports(const std::string& folder);
    ~StallReports();
    StallReports(const StallReports&) = delete;

    /// Returns false if the folder cannot be created or opened, or is a link.
    bool usable() const { return folder_ >= 0; }
    /// Replaces the report of a rank; errors are ignored.
    void write(int rank, const std::string& line) const;
    /// Returns the report of a rank; empty if there is none.
    std::string read(int rank) const;

private:
    int folder_;
};

}  // namespace convoy
