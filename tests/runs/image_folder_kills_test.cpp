// convoy convert imagefolder, killed in the middle: it resumes with the finished shards.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class ImageFolderKills : public testing::Test {
protected:
    /// Starts a conversion to `out_`, and kills all of its processes once `records` shards are
    /// ready. The processes are a separate session.
    void kill_after(int records, int ranks, const std::string& options) {
        write_file(dir_.path("job.sh"), launch_command(ranks, options + out_, 600));
        const Finished f =
            run(formatted("setsid bash %s >/dev/null 2>&1 & job=$!\n"
                          "for i in $(seq 6000); do [ $(ls %s.partial/records 2>/dev/null | wc -l) -ge %d ] && break; "
                          "sleep 0.01; done\npkill -KILL -s $job; wait $job 2>/dev/null; true",
                          dir_.path("job.sh").c_str(), out_.c_str(), records));
        ASSERT_EQ(f.code, 0) << f.err;
        ASSERT_FALSE(fs::exists(out_)) << "it was ready before it could be killed";
    }

    TempDir dir_;
    std::string root_ = dir_.path("in"), out_ = dir_.path("out");
};

TEST_F(ImageFolderKills, GoesOnAfterAKillWithTheShardsThatAreThere) {
    make_image_folder(root_, 3, 100);
    const std::string options = "convert imagefolder --short-side 400 --shards 24 --from " + root_ + " --to ";
    ASSERT_EQ("", failure(launch(2, options + dir_.path("whole"))));
    const std::string records = out_ + ".partial/records";
    kill_after(5, 2, options);
    std::vector<std::string> finished;
    for (const auto& entry : fs::directory_iterator(records))
        if (entry.path().extension() == ".h5") finished.push_back(entry.path().filename());
    ASSERT_GE(finished.size(), 3u) << "of five, each of the two ranks may have been writing one";
    const auto number_of = [](const std::string& path) {
        struct stat about{};
        return ::stat(path.c_str(), &about) == 0 ? about.st_ino : 0;
    };
    std::map<std::string, ino_t> numbers;
    for (const std::string& name : finished) numbers[name] = number_of(out_ + ".partial/shards/" + name);

    const Finished f = launch(3, options + out_);  // another number of ranks
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.err.find("continues: " + std::to_string(finished.size()) + " of 26 shards are there"),
              std::string::npos)
        << f.err;
    for (const std::string& name : finished)
        EXPECT_EQ(number_of(out_ + "/" + name), numbers.at(name)) << name << " was made again";
    EXPECT_TRUE(files_in(out_) == files_in(dir_.path("whole"))) << "other bytes than without the kill";
    EXPECT_FALSE(fs::exists(out_ + ".partial"));
}

// A complete conversion at the size of a small data set: ranks, kills, checksums.
TEST_F(ImageFolderKills, TwentyThousandFilesAreTheSameHoweverTheyAreConverted) {
    make_image_folder(root_, 100, 200);
    const std::string options = "convert imagefolder --short-side 48 --shards 12 --from " + root_ + " --to ";
    ASSERT_EQ("", failure(launch(1, options + dir_.path("alone"), 600)));
    const auto alone = files_in(dir_.path("alone"));
    EXPECT_EQ(alone.size(), 12u + 1 + 1);
    ASSERT_EQ("", failure(launch(4, options + dir_.path("four"), 600)));
    EXPECT_TRUE(files_in(dir_.path("four")) == alone);
    kill_after(4, 2, options);
    kill_after(8, 2, options);
    ASSERT_EQ("", failure(launch(2, options + out_, 600)));
    EXPECT_TRUE(files_in(out_) == alone);
    EXPECT_EQ("", failure(convoy_alone("verify " + out_, 600)));
    record_fault("kill -9 of 2 ranks that convert 20,000 image files, twice",
                 "goes on with the finished shards; the same bytes", "as promised", 1);
}

}  // namespace
}  // namespace convoy::test
