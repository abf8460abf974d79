// Data sets with more shards than a process may have open: shards are opened one after the other.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "base/file_limit.h"
#include "data/shard.h"
#include "data/split_pieces.h"
#include "tests/support/cluster.h"
#include "tests/support/file_calls.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Sets a soft limit of open files while it exists.
class SoftLimit {
public:
    explicit SoftLimit(rlim_t files) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit now{files, before_.rlim_max};
        ::setrlimit(RLIMIT_NOFILE, &now);
    }
    ~SoftLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    SoftLimit(const SoftLimit&) = delete;

private:
    rlimit before_{};
};

class FewFiles : public testing::Test {
protected:
    /// Counts descriptors of this process that are files of the data set, according to the kernel.
    int descriptors() const {
        int count = 0;
        for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
            std::error_code gone;  // the folder's own
            count += fs::read_symlink(entry.path(), gone).string().starts_with(real_path(data_) + "/");
        }
        return count;
    }
    /// Returns pixels and labels, read `step` rows at a time.
    std::string rows(const SplitReader& reader, int64_t step) const {
        const SplitInfo& info = reader.info();
        std::string all;
        for (int64_t row = 0; row < info.images; row += step) {
            const int64_t count = std::min(step, info.images - row);
            std::vector<uint8_t> pixels(info.ragged ? size_t(count) * 45 * 45 * 3 : size_t(count) * info.row_bytes());
            std::vector<int32_t> labels(static_cast<size_t>(count));
            reader.read(row, count, pixels.data(), labels.data());
            all.append(pixels.begin(), pixels.end());
            for (const int32_t label : labels) all += std::to_string(label) + " ";
        }
        return all;
    }

    TempDir dir_;
    const std::string data_ = dir_.path("data");
};

TEST_F(FewFiles, TheSoftLimitIsRaisedToTheHardOne) {
    const SoftLimit limit(64);
    EXPECT_EQ(files_to_keep_open(), 8u);
    raise_file_limit();
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    EXPECT_EQ(now.rlim_cur, now.rlim_max);
    EXPECT_GT(files_to_keep_open(), 8u);
}

// Child processes (PYTHON) inherit the raised limit.
TEST_F(FewFiles, CommandsRaiseTheLimit) {
    write_file(dir_.path("python"), "#!/bin/bash\nulimit -Sn >>" + dir_.path("limits") + "\n");
    fs::permissions(dir_.path("python"), fs::perms::owner_all);
    const Finished f = run("ulimit -Sn 64; ulimit -Hn; export PYTHON=" + dir_.path("python") + "; " +
                           with_limit(sibling("convoy") + " plot run", 30));
    const std::string limits = read_file(dir_.path("limits"));
    EXPECT_EQ(limits.substr(0, limits.find('\n')), f.out.substr(0, f.out.find('\n'))) << f.err;
}

TEST_F(FewFiles, ShardsAreOpenedInTurn) {
    make_data(data_, 60, 20, "8x8x3", 20);
    const std::string expected = rows(SplitReader(data_, "train"), 60);
    EXPECT_EQ(descriptors(), 0);
    const SplitReader few(data_, "train", 3);
    EXPECT_EQ(descriptors(), 3);
    EXPECT_EQ(rows(few, 60), expected);
    EXPECT_EQ(rows(few, 60), expected) << "once more";
    EXPECT_EQ(descriptors(), 3);
    const SplitPieces pieces(few);
    EXPECT_EQ(pieces.all().size(), 20u);
}

TEST_F(FewFiles, RaggedShardsAreOpenedInTurn) {
    for (const ImageLayout layout : {ImageLayout::raw, ImageLayout::jpeg}) {
        make_ragged(data_, layout);
        const std::string expected = rows(SplitReader(data_, "train"), 7);
        const SplitReader one(data_, "train", 1);
        EXPECT_EQ(rows(one, 7), expected);
        EXPECT_EQ(descriptors(), 1);
        fs::remove_all(data_);
    }
}

TEST_F(FewFiles, AShardThatWasReplacedMeanwhileIsNotRead) {
    make_data(data_, 60, 20, "8x8x3", 20);
    const SplitReader reader(data_, "train", 2);
    const std::string first = data_ + "/train-00000-of-00020.h5";
    make_data(dir_.path("larger"), 60, 20, "16x16x3", 20);
    fs::rename(dir_.path("larger") + "/train-00000-of-00020.h5", first);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {first, "was replaced", "put it back"}, [&] { rows(reader, 3); }));
    // The same shape, but numbers of another type.
    make_data(dir_.path("other"), 60, 20, "8x8x3", 20);
    fs::rename(dir_.path("other") + "/train-00000-of-00020.h5", first);
    {
        const h5::Handle file(H5Fopen(first.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        ASSERT_GE(H5Ldelete(file, "/images", H5P_DEFAULT), 0);
        h5::create_dataset(file, "/images", H5T_STD_U16LE, {3, 8, 8, 3}, {3, 8, 8, 3}, first);
    }
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {first, "/images is not of rank 4 and type uint8"},
                                   [&] { rows(reader, 3); }));
    fs::remove(first);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {first, "No such file"}, [&] { rows(reader, 3); }));
}

}  // namespace
}  // namespace convoy::test
