// Finds other processes that take processor time from this job, by the time that each used between
// two readings of /proc.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// A process, and the processor seconds it has used since it started.
struct ProcessTime {
    int pid = 0;
    std::string program;
    double seconds = 0;
};
/// Returns all processes that are visible. `root` is put before /proc, for tests.
std::vector<ProcessTime> process_times(const std::string& root = "");

struct BusyProcess {
    int pid = 0;
    std::string program;
    double processors = 0;  ///< processor seconds per second
};
/// Returns the processes that used at least 0.1 processors in the `seconds` between two readings,
/// the busiest first. Leaves out `own`, the processes of this job on all nodes. Compares pid and
/// program, because a process of another node may have the same pid.
std::vector<BusyProcess> busy_between(const std::vector<ProcessTime>& before, const std::vector<ProcessTime>& after,
                                      double seconds, const std::vector<ProcessTime>& own);
/// Returns the processors on which a process may run, "0-3,8"; empty if not known. `pid` may be
/// "self".
std::string processors_of(const std::string& pid, const std::string& root = "");
/// Returns the processes that may run on some of these processors, and those whose processors are
/// not known. Other jobs often share a node but no processor.
std::vector<BusyProcess> sharing(const std::vector<BusyProcess>&, const std::string& processors,
                                 const std::string& root = "");
/// Returns the entry of this process; `program` is empty if /proc cannot be read.
ProcessTime own_process();

/// Returns "stress-ng (pid 71) uses 1.9 processors and 3 more use 0.6"; empty if they together use
/// less than half a processor, or less than a tenth of `processors`.
std::string disturbance_by(const std::vector<BusyProcess>&, int processors);

}  // namespace convoy
