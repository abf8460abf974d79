// Meaning of a failure to open or read an HDF5 file. It says nothing about the file's bytes, unless
// they are inconsistent.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "base/file_error.h"
#include "data/hdf5.h"
#include "data/input_bytes.h"
#include "tests/support/file_calls.h"
#include "tests/support/support.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Hdf5Access : public testing::Test {
protected:
    Hdf5Access() {
        h5::Handle file = h5::create(path_);
        const std::vector<int32_t> numbers(1000, 7);
        h5::write_rows(h5::create_dataset(file, "/numbers", H5T_STD_I32LE, {1000}, {1000}, path_), H5T_NATIVE_INT32, 0,
                       1000, numbers.data(), path_);
        h5::close(std::move(file), path_);
    }
    /// Returns "inaccessible: …" or "damaged: …" if opening the file fails; otherwise an empty
    /// text.
    std::string refusal() const {
        try {
            h5::open(path_);
            return "";
        } catch (const Inaccessible& reason) {
            return std::string("inaccessible: ") + reason.what();
        } catch (const Error& reason) {
            return std::string("damaged: ") + reason.what();
        }
    }
    static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

    TempDir dir_;
    const std::string path_ = dir_.path("file.h5");
};

TEST_F(Hdf5Access, ReadsWhatAnotherHasLocked) {
    const int other = ::open(path_.c_str(), O_RDWR);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    EXPECT_EQ("", refusal());
    ::close(other);
}

// The mark is part of HDF5's own format: h5py leaves it, and h5clear removes it.
TEST_F(Hdf5Access, AFileThatIsOpenForWritingIsNotDamaged) {
    const std::string python = python_with("h5py");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    EXPECT_EQ("", refusal());
    run(python + " -c \"import h5py, os; f = h5py.File('" + path_ + "', 'r+'); os.kill(os.getpid(), 9)\"");
    EXPECT_TRUE(refusal().starts_with("inaccessible: " + path_ + ": is open for writing elsewhere")) << refusal();
    EXPECT_TRUE(has(refusal(), "was killed")) << refusal();
    ASSERT_EQ(run("h5clear -s " + path_).code, 0);
    EXPECT_EQ("", refusal());
}

TEST_F(Hdf5Access, AFlippedBitOfTheSuperblockIsDamage) {
    const std::string whole = read_file(path_);
    for (size_t byte = 8; byte < 48; ++byte)
        for (int bit = 0; bit < 8; ++bit) {
            std::string flipped = whole;
            flipped[byte] = char(flipped[byte] ^ (1 << bit));
            write_file(path_, flipped);
            EXPECT_TRUE(refusal().starts_with("damaged: ")) << "byte " << byte << ", bit " << bit << ": " << refusal();
        }
}

// Such a hole takes no room on a disk, but hours to verify.
TEST_F(Hdf5Access, AHoleIsDamage) {
    const uintmax_t bytes = std::filesystem::file_size(path_);
    std::filesystem::resize_file(path_, bytes + (8 << 20));
    EXPECT_EQ("", refusal());
    std::filesystem::resize_file(path_, uintmax_t(1) << 40);
    EXPECT_EQ(refusal(), "damaged: " + path_ + ": nearly all of its 1099511627776 bytes are a hole; get it again");
    write_file(dir_.path("large"), std::string(8 << 20, 'x'));
    std::filesystem::resize_file(dir_.path("large"), 70 << 20);
    EXPECT_NO_THROW(InputBytes(dir_.path("large"))) << "a ninth of it is stored";
    std::filesystem::resize_file(dir_.path("large"), 90 << 20);
    EXPECT_THROW(InputBytes(dir_.path("large")), Error);
}

TEST_F(Hdf5Access, TheLimitOfOpenFilesIsNamed) {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none{rlim_t(next), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const std::string refused = refusal();
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_TRUE(refused.starts_with("inaccessible: ") && has(refused, "Too many open files") &&
                has(refused, "ulimit -n"))
        << refused;
}

TEST_F(Hdf5Access, AFailingDiskIsNoDamage) {
    const h5::Handle file = h5::open(path_), set = h5::open_dataset(file, "/numbers", path_);
    std::vector<int32_t> numbers(1000);
    const BadReads reads(0, EIO);
    try {
        h5::read_rows(set, H5T_NATIVE_INT32, 0, 1000, numbers.data(), path_);
        FAIL() << "nothing was read";
    } catch (const Inaccessible& reason) {
        EXPECT_TRUE(has(reason.what(), "/numbers: cannot be read: Input/output error") &&
                    !has(reason.what(), "damaged"))
            << reason.what();
    }
}

TEST_F(Hdf5Access, AFileThatIsGoneIsNoDamage) {
    fs::remove(path_);
    EXPECT_TRUE(refusal().starts_with("inaccessible: " + path_)) << refusal();
}

TEST_F(Hdf5Access, EveryErrnoHasItsOwnAdvice) {
    std::set<std::string> all;
    const std::vector<int> codes = {EAGAIN, ENOLCK, EROFS, EMFILE, ENFILE, EACCES, ESTALE, EIO, ENOTCONN, ENOENT};
    for (const int code : codes) {
        const std::string words = reason_and_advice(code, "check the path");
        EXPECT_FALSE(has(words, "damaged") || has(words, "make it again")) << words;
        EXPECT_EQ(has(words, "check the path"), code == ENOENT) << words;
        all.insert(words.substr(words.find(';')));
    }
    EXPECT_EQ(all.size(), codes.size()) << "advice is given twice";
    EXPECT_TRUE(has(reason_and_advice(524, ""), "does not support"));  // ENOTSUPP, which NFS returns
}

// In a folder with the sticky bit only its owner can remove the link. So the link is still there
// when the file is created.
TEST_F(Hdf5Access, NoFileIsCreatedThroughALink) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const std::string folder = dir_.path("shared"), link = folder + "/model.h5", victim = dir_.path("victim");
    write_file(victim, "mine");
    ASSERT_EQ(::chown(victim.c_str(), 1000, 1000), 0);
    fs::create_directories(folder);
    fs::create_symlink(victim, link);
    ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    ::setfsuid(1000);
    const std::string problem = problem_of_error(Exit::io, {link + ": cannot be written"}, [&] { h5::create(link); });
    ::setfsuid(0);
    EXPECT_EQ("", problem);
    EXPECT_EQ(read_file(victim), "mine");
    EXPECT_TRUE(fs::is_symlink(link));
}

}  // namespace
}  // namespace convoy::test
