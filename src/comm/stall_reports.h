// RUN/stalled/rank-N.txt: what each rank was in when the watchdog ended the job. Other users may be
// able to write in the run folder, so no link is followed and no pipe waited for.
#pragma once
#include <string>

namespace convoy {

class StallReports {
public:
    /// Makes the folder if it is not there.
    explicit StallReports(const std::string& folder);
    ~StallReports();
    StallReports(const StallReports&) = delete;

    /// False where there can be no reports: the folder cannot be made, or is a link.
    bool usable() const { return folder_ >= 0; }
    /// Replaces the report of a rank; nothing is said if it cannot be written.
    void write(int rank, const std::string& line) const;
    /// Returns the report of a rank; empty if there is none.
    std::string read(int rank) const;

private:
    int folder_;
};

}  // namespace convoy
