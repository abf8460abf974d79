#include "accept/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/quantile.h"
#include "base/text.h"

namespace convoy {

std::vector<std::string> files_to_read(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    std::vector<std::string> files;
    for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (at->is_regular_file(error)) files.push_back(at->path());
    if (error) fail(Exit::bad_input, "--data " + folder + ": cannot be read: " + error.message());
    if (files.empty()) fail(Exit::bad_input, "--data " + folder + ": holds no file; name the folder of a data set");
    std::ranges::sort(files);
    return files;
}

namespace {

/// Reads files until `most` bytes are read or each file was read once. Begins with the file at
/// index `first`; the first file follows the last one.
NodeReading read_files(const std::vector<std::string>& files, size_t first, int64_t most) {
    NodeReading r;
    std::vector<char> buffer(size_t(4) << 20);
    const Clock::time_point began = Clock::now();
    for (size_t i = 0; i < files.size() && r.bytes < double(most); ++i) {
        const std::string& path = files[(first + i) % files.size()];
        const auto note = [&](const std::string& why) {
            if (r.trouble.empty()) r.trouble = printable(path) + ": " + why;
        };
        const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat file{};
        if (fd < 0 || ::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
            note(fd < 0 ? std::strerror(errno) : "is no regular file");
            if (fd >= 0) ::close(fd);
            continue;
        }
        ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        ssize_t n = 0;
        while (r.bytes < double(most) && (n = ::read(fd, buffer.data(), buffer.size())) > 0) r.bytes += double(n);
        if (n < 0) note(std::strerror(errno));
        ::close(fd);
        ++r.files;
    }
    r.seconds = seconds_since(began);
    return r;
}

double rate(const NodeReading& r) { return r.seconds > 0 ? r.bytes / r.seconds : 0; }

double file_rate(const NodeReading& r) { return r.seconds > 0 ? double(r.files) / r.seconds : 0; }

std::string rates(const NodeReading& r) { return formatted("%.3g GB/s, %.3g files/s", rate(r) / 1e9, file_rate(r)); }

}  // namespace

LevelResult judge_reading(const std::vector<NodeReading>& at_once, const NodeReading& alone) {
    LevelResult r{.level = "input"};
    std::vector<double> all;
    double sum = 0;
    for (const NodeReading& node : at_once) {
        all.push_back(rate(node));
        sum += rate(node);
        r.add({.name = "read_at_once", .unit = "bytes/s", .value = rate(node), .host = node.host});
        r.add({.name = "files_at_once", .unit = "files/s", .value = file_rate(node), .host = node.host});
        r.details.push_back(node.host + ": " + rates(node) + " while all nodes read");
    }
    r.details.push_back(alone.host + ": " + rates(alone) + " alone");
    r.add({.name = "read_alone", .unit = "bytes/s", .value = rate(alone), .host = alone.host});
    const double limit = 0.5 * median(all);
    if (at_once.size() >= 3) r.add({.name = "read_limit", .unit = "bytes/s", .value = limit});
    for (const NodeReading& node : at_once)
        if (at_once.size() >= 3 && rate(node) < limit)
            r.blamed.push_back({node.host, "",
                                "reads slowly: " + rates(node) + formatted(", the others %.3g GB/s", median(all) / 1e9),
                                false});
    r.outcome = r.blamed.empty() ? Outcome::pass : Outcome::warn;
    for (const NodeReading& node : at_once) {
        if (node.trouble.empty()) continue;
        r.outcome = Outcome::fail;
        r.blamed.push_back({node.host, "", "cannot read " + node.trouble, false});
    }
    r.figure = formatted("%.3g GB/s by %zu nodes at once, %.3g GB/s by one alone", sum / 1e9, at_once.size(),
                         rate(alone) / 1e9);
    if (at_once.size() == 1) r.figure = rates(alone);
    r.expected = at_once.size() < 3 ? "" : "each node at least half as fast as the median";
    return r;
}

LevelResult input_level(Comm& world, const std::string& folder, int64_t most) {
    const Clock::time_point began = Clock::now();
    std::vector<std::string> files;
    world.together([&] { files = files_to_read(folder); });
    const bool leads = world.local_rank() == 0;
    // Nodes begin at different files, as the ranks of a training do.
    const size_t first = size_t(world.rank()) * files.size() / size_t(world.size());
    const auto gathered = [&](const NodeReading& mine) {
        std::vector<NodeReading> nodes;
        const std::vector<std::string> hosts = world.gather_all(leads ? world.host() : ""),
                                       troubles = world.gather_all(mine.trouble);
        const std::vector<double> numbers =
            world.gather_all(std::vector<double>{mine.bytes, mine.seconds, double(mine.files)});
        for (size_t i = 0; i < hosts.size(); ++i)
            if (!hosts[i].empty())
                nodes.push_back(
                    {hosts[i], numbers[3 * i], numbers[3 * i + 1], int64_t(numbers[3 * i + 2]), troubles[i]});
        return nodes;
    };
    world.barrier();
    const NodeReading together = leads ? read_files(files, first, most) : NodeReading{};
    world.wait_for_all();
    const std::vector<NodeReading> at_once = gathered(together);
    const NodeReading one = world.root() ? read_files(files, 0, most) : NodeReading{};
    world.wait_for_all();
    LevelResult r = judge_reading(at_once, gathered(one).front());
    r.seconds = seconds_since(began);
    return r;
}

}  // namespace convoy
