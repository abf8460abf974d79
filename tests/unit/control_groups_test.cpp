// The control groups of a process, read from generated files.
#include "base/control_groups.h"

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

std::vector<std::string> names(const std::string& root) {
    std::vector<std::string> all;
    for (const auto& nested : control_groups(root, "memory"))
        for (const ControlGroup& group : nested) all.push_back(group.name);
    return all;
}

// A container sees only its own groups: those above are "/..", and cannot be read.
TEST(ControlGroups, OutsideTheMountedOneTheMountedOneCounts) {
    const TempDir dir;
    const auto of = [&](const std::string& mounted, const std::string& path) {
        write_file(dir.path("proc/self/mountinfo"),
                   "30 23 0:26 " + mounted + " /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
        write_file(dir.path("proc/self/cgroup"), "0::" + path + "\n");
        return names(dir.path());
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(of("/", "/slurm/job_7"), (Names{"/slurm/job_7", "/slurm", "/"}));
    EXPECT_EQ(of("/", "/"), Names{"/"});
    EXPECT_EQ(of("/", "/../other"), Names{"/"});
    EXPECT_EQ(of("/docker/abc", "/docker/abc/child"), (Names{"/docker/abc/child", "/docker/abc"}));
    EXPECT_EQ(of("/docker/abc", "/docker/abcdef"), Names{"/docker/abc"}) << "another, whose name begins alike";
    EXPECT_EQ(of("/docker/abc", "/elsewhere"), Names{"/docker/abc"});
}

}  // namespace
}  // namespace convoy::test
