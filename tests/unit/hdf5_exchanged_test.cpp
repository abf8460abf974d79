// Files that are exchanged while they are opened: what was checked is what HDF5 reads.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "data/hdf5.h"
#include "data/hdf5_failure.h"
#include "data/hdf5_untrusted.h"
#include "tests/support/cluster.h"
#include "tests/support/file_calls.h"
#include "tests/support/support.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Hdf5Exchanged : public testing::Test {
protected:
    Hdf5Exchanged() {
        make(path_, 1);
        make(other_, 2);
    }
    static void make(const std::string& path, int32_t number) {
        h5::Handle file = h5::create(path);
        h5::set_attribute(file, "number", int64_t(number));
        const std::vector<int32_t> numbers(1000, number);
        h5::write_rows(h5::create_dataset(file, "/numbers", H5T_STD_I32LE, {1000}, {100}, path), H5T_NATIVE_INT32, 0,
                       1000, numbers.data(), path);
        h5::close(std::move(file), path);
    }
    static ino_t inode(const std::string& path) {
        struct stat status{};
        EXPECT_EQ(::stat(path.c_str(), &status), 0);
        return status.st_ino;
    }
    /// Opens the file, lets `happen` after its first bytes were read, and reads all of it.
    void read_while(const std::function<void()>& happen) const {
        const ino_t checked = inode(path_);
        h5::Handle file;
        {
            const AfterRead exchange(happen);
            file = h5::open(path_);
        }
        struct stat read{};
        ASSERT_EQ(::fstat(h5::descriptor_of(file, path_), &read), 0);
        EXPECT_EQ(read.st_ino, checked);
        EXPECT_EQ(h5::path_of(file), path_) << "for messages";
        EXPECT_EQ(h5::int_attribute(file, "number", path_), 1);
        std::vector<int32_t> numbers(1000);
        h5::read_rows(h5::open_dataset(file, "/numbers", path_), H5T_NATIVE_INT32, 0, 1000, numbers.data(), path_);
        EXPECT_EQ(numbers, std::vector<int32_t>(1000, 1));
    }
    static size_t open_files() {
        return size_t(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
    }

    TempDir dir_;
    const std::string path_ = dir_.path("file.h5"), other_ = dir_.path("other.h5");
};

TEST_F(Hdf5Exchanged, AnotherFileAtItsPathIsNotRead) {
    read_while([&] { fs::rename(other_, path_); });
    EXPECT_EQ(h5::int_attribute(h5::open(path_), "number", path_), 2) << "the exchange took place";
}

TEST_F(Hdf5Exchanged, ALinkAtItsPathIsNotFollowed) {
    read_while([&] {
        fs::remove(path_);
        fs::create_symlink(other_, path_);
    });
}

TEST_F(Hdf5Exchanged, ADamagedFileAtItsPathIsNotRead) {
    std::string damaged = read_file(other_);
    for (size_t at = damaged.find("OHDR"); at < damaged.size(); at += 7) damaged[at] = char(damaged[at] ^ 0x55);
    write_file(other_, damaged);
    read_while([&] { fs::rename(other_, path_); });
}

TEST_F(Hdf5Exchanged, AFileThatIsRemovedIsReadToItsEnd) {
    read_while([&] { fs::remove(path_); });
}

TEST_F(Hdf5Exchanged, AFolderThatIsMovedDoesNotMatter) {
    fs::create_directory(dir_.path("run"));
    fs::rename(path_, dir_.path("run/file.h5"));
    fs::create_directory_symlink(dir_.path("run"), dir_.path("link"));
    const std::string path = dir_.path("link/file.h5");
    const AfterRead exchange([&] { fs::remove(dir_.path("link")); });
    EXPECT_EQ(h5::int_attribute(h5::open(path), "number", path), 1);
}

// HDF5 would take two files with one number for the same file.
TEST_F(Hdf5Exchanged, TheOldFileAndTheNewOneCanBothBeOpen) {
    const h5::Handle before = h5::open(path_);
    fs::rename(other_, path_);
    const h5::Handle after = h5::open(path_), again = h5::open(path_);
    EXPECT_EQ(h5::int_attribute(before, "number", path_), 1);
    EXPECT_EQ(h5::int_attribute(after, "number", path_), 2);
    EXPECT_EQ(h5::int_attribute(again, "number", path_), 2);
    EXPECT_NE(h5::number_of(after, path_), h5::number_of(before, path_));
}

TEST_F(Hdf5Exchanged, NoFileStaysOpen) {
    h5::open(path_);
    write_file(other_, read_file(other_).substr(0, 200));
    const size_t before = open_files();
    for (int i = 0; i < 5; ++i) {
        h5::open_dataset(h5::open(path_), "/numbers", path_);
        EXPECT_THROW(h5::open(other_), Error);
    }
    EXPECT_EQ(open_files(), before);
}

TEST_F(Hdf5Exchanged, ALockThatIsAskedForIsRefusedWhileAnotherHasIt) {
    const std::string read = "HDF5_USE_FILE_LOCKING=TRUE flock -o " + path_ + " " + sibling("convoy") +
                             " export --to " + dir_.path("x.safetensors") + " --model-file " + path_;
    EXPECT_EQ("", refusal(run(read), Exit::bad_input, {path_ + ": cannot be read: ", "Resource temporarily"}));
}

}  // namespace
}  // namespace convoy::test
