#include "accept/busy_processes.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "base/control_groups.h"
#include "base/folder.h"
#include "base/text.h"
#include "comm/binding.h"

namespace convoy {
namespace {

constexpr double least_processors = 0.1;

/// Takes a line of /proc/PID/stat apart. The program's name is in parentheses, and may contain
/// blanks and parentheses.
std::optional<ProcessTime> process_in(const std::string& line) {
    const size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
    const std::vector<std::string> fields = words_of(line.substr(close + 1));
    constexpr size_t user_time = 11, system_time = 12;  // counted from the state, which follows the name
    if (fields.size() <= system_time) return std::nullopt;
    double ticks = 0;
    for (const size_t field : {user_time, system_time}) ticks += std::atof(fields[field].c_str());
    return ProcessTime{std::atoi(line.c_str()), printable(line.substr(open + 1, close - open - 1)),
                       ticks / double(sysconf(_SC_CLK_TCK))};
}

}  // namespace

std::vector<ProcessTime> process_times(const std::string& root) {
    std::vector<ProcessTime> all;
    std::error_code none;
    for (const std::filesystem::path& folder : entries_of(root + "/proc", none)) {
        const std::string name = folder.filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const std::string line = joined(lines_of((folder / "stat").string()), "\n");  // a name may hold line ends
        if (const auto process = process_in(line)) all.push_back(*process);
    }
    return all;
}

std::vector<BusyProcess> busy_between(const std::vector<ProcessTime>& before, const std::vector<ProcessTime>& after,
                                      double seconds, const std::vector<ProcessTime>& own) {
    std::map<int, const ProcessTime*> earlier;
    for (const ProcessTime& process : before) earlier[process.pid] = &process;
    std::vector<BusyProcess> busy;
    for (const ProcessTime& process : after) {
        if (std::ranges::any_of(
                own, [&](const ProcessTime& o) { return o.pid == process.pid && o.program == process.program; }))
            continue;
        const auto found = earlier.find(process.pid);
        const double used = process.seconds - (found == earlier.end() ? 0 : found->second->seconds);
        if (used >= least_processors * seconds) busy.push_back({process.pid, process.program, used / seconds});
    }
    std::ranges::sort(busy, std::greater(), &BusyProcess::processors);
    return busy;
}

std::string processors_of(const std::string& pid, const std::string& root) {
    constexpr std::string_view key = "Cpus_allowed_list:";
    for (const std::string& line : lines_of(root + "/proc/" + pid + "/status"))
        if (line.starts_with(key)) return trimmed(line.substr(key.size()));
    return "";
}

std::vector<BusyProcess> sharing(const std::vector<BusyProcess>& busy, const std::string& processors,
                                 const std::string& root) {
    const CpuSet wanted = cpu_set(processors);
    std::vector<BusyProcess> kept;
    for (const BusyProcess& process : busy) {
        const std::string allowed = processors_of(std::to_string(process.pid), root);
        if (allowed.empty() || hwloc_bitmap_intersects(cpu_set(allowed).get(), wanted.get())) kept.push_back(process);
    }
    return kept;
}

ProcessTime own_process() {
    return process_in(joined(lines_of("/proc/self/stat"), "\n")).value_or(ProcessTime{int(getpid()), "", 0});
}

std::string disturbance_by(const std::vector<BusyProcess>& busy, int processors) {
    double sum = 0;
    for (const BusyProcess& process : busy) sum += process.processors;
    if (sum < std::max(0.5, 0.1 * processors)) return "";
    const BusyProcess& first = busy.front();
    std::string text =
        formatted("%s (pid %d) uses %.1f processors", first.program.c_str(), first.pid, first.processors);
    if (busy.size() > 1) text += formatted(" and %zu more use %.1f", busy.size() - 1, sum - first.processors);
    return text;
}

}  // namespace convoy
