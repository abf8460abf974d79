// --no-environment: texts without hosts and paths.
#include "base/redaction.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

TEST(Redaction, OfNothingChangesNothing) {
    EXPECT_EQ(Redaction()("convoy train --data /home/a/b on node1"), "convoy train --data /home/a/b on node1");
}

TEST(Redaction, LeavesTheLastPartOfPaths) {
    const TempDir dir;
    Redaction hide;
    hide.add_path("/home/anna/sets/cifar10/");
    hide.add_path("some/where/run");
    hide.add_path("/scratch/anna");
    EXPECT_EQ(hide("--data /home/anna/sets/cifar10/ --output=some/where/run"), "--data cifar10/ --output=run");
    EXPECT_EQ(hide("'/home/anna/sets/cifar10/manifest.json': is damaged"), "'cifar10/manifest.json': is damaged");
    EXPECT_EQ(hide("some/where/run.log"), "run.log");
    EXPECT_EQ(hide(std::filesystem::absolute("some/where/run/checkpoints").string()), "run/checkpoints");
    EXPECT_EQ(hide(std::filesystem::absolute("another").string()), "./another");
    EXPECT_EQ(hide("/scratch/anna/x"), "anna/x");
    EXPECT_EQ(hide("awesome/where/run"), "awesome/where/run") << "another path that ends alike";
    EXPECT_EQ(hide("lr = 0.1"), "lr = 0.1");
    const char* home = std::getenv("HOME");
    if (home && std::string(home).size() > 1) {
        EXPECT_EQ(hide(std::string(home) + "/x"), "~/x");
    }
}

TEST(Redaction, LeavesTheLastPartOfOtherAbsolutePaths) {
    Redaction hide;
    hide.add_hosts({"node1"});
    EXPECT_EQ(hide("is a link to /home/berta/x, which is for '/scratch/berta/runs/7/': echo /a > \"/b/c\""),
              "is a link to x, which is for '7': echo a > \"c\"");
    EXPECT_EQ(hide("300 images/s on 1/2 of / (//) at 3 I/O; file:///home/x"),
              "300 images/s on 1/2 of / (//) at 3 I/O; file:x");
}

TEST(Redaction, FindsAPathHoweverItIsWritten) {
    const TempDir dir;
    std::filesystem::create_directory(dir.path("real"));
    std::filesystem::create_directory_symlink("real", dir.path("link"));
    Redaction hide;
    hide.add_path(dir.path("x/../link"));
    for (const std::string path : {"x/../link", "link", "real"})
        EXPECT_EQ(hide("in " + dir.path(path)), "in real") << path;
}

TEST(Redaction, NumbersHosts) {
    Redaction hide;
    hide.add_hosts({"gpu1.site.edu", "gpu1.site.edu", "gpu12.site.edu", "gpu1.site.edu"});
    EXPECT_EQ(hide("gpu1.site.edu"), "host-1");
    EXPECT_EQ(hide("gpu12.site.edu: gpu1, gpu12; gpu123 gpu1-ib"), "host-2: host-1, host-2; gpu123 gpu1-ib");
}

}  // namespace
}  // namespace convoy::test
