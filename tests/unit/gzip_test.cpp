// Plain bytes and digests of gzipped files, compared with gzip, md5sum and sha256sum.
#include "data/gzip.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

class Gzip : public testing::Test {
protected:
    std::string plain_of(GzipReader& reader, size_t step) const {
        std::string all, part(step, '\0');
        for (size_t got = step; got == step;) {
            got = reader.read(part.data(), step);
            all.append(part, 0, got);
        }
        return all;
    }
    std::string first_word(const std::string& command) const {
        const std::string out = run(command).out;
        return out.substr(0, out.find(' '));
    }

    TempDir dir_;
    const std::string path_ = dir_.path("file");
};

TEST_F(Gzip, PlainBytesAndDigestsAreThoseOfOtherPrograms) {
    const std::string random = "head -c 700000 /dev/urandom";
    for (const std::string& make :
         {random + " | gzip >", random + " >", "{ " + random + " | gzip; " + random + " | gzip -1; } >",
          "{ " + random + " | gzip; head -c 1000 /dev/zero; } >", std::string("printf '' >"),
          std::string("printf '' | gzip >"), std::string("printf '\\037' >"),
          std::string("yes | head -c 5000000 | gzip >")}) {
        ASSERT_EQ(run(make + path_).code, 0) << make;
        run("gzip -dcq " + path_ + " >" + dir_.path("plain") + " || cp " + path_ + " " + dir_.path("plain"));
        for (const size_t step : {size_t(1) << 12, size_t(300'001), size_t(1) << 23}) {
            GzipReader reader(path_, GzipReader::Digests::of_file);
            EXPECT_EQ(plain_of(reader, step), read_file(dir_.path("plain"))) << make;
            EXPECT_EQ(reader.md5(), first_word("md5sum " + path_)) << make;
            EXPECT_EQ(reader.sha256(), first_word("sha256sum " + path_)) << make;
        }
    }
}

TEST_F(Gzip, DamageIsFound) {
    ASSERT_EQ(run("head -c 700000 /dev/urandom | gzip >" + path_).code, 0);
    const std::string good = read_file(path_);
    for (const size_t bytes : {good.size() - 1, good.size() - 8, good.size() / 2, size_t(12), size_t(2)}) {
        write_file(path_, good.substr(0, bytes));
        GzipReader reader(path_);
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_ + ": at byte ", "ends too early"},
                                       [&] { plain_of(reader, 9999); }))
            << bytes;
    }
    for (const size_t at : {good.size() - 2, good.size() - 6, good.size() / 2}) {
        std::string bad = good;
        bad[at] = char(bad[at] ^ 1);
        write_file(path_, bad);
        GzipReader reader(path_);
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_ + ": at byte ", "cannot be decompressed"},
                                       [&] { plain_of(reader, 9999); }))
            << at;
    }
}

// Another file at the path would make a changed archive the official one.
TEST_F(Gzip, DigestsAreOfTheBytesThatWereRead) {
    ASSERT_EQ(run("head -c 3000000 /dev/urandom | gzip >" + path_ + "; echo other >" + dir_.path("other")).code, 0);
    const std::string md5 = first_word("md5sum " + path_);
    GzipReader reader(path_, GzipReader::Digests::of_file);
    char byte = 0;
    EXPECT_EQ(reader.read(&byte, 1), 1u);
    std::filesystem::rename(dir_.path("other"), path_);
    plain_of(reader, 9999);
    EXPECT_EQ(reader.md5(), md5);
}

}  // namespace
}  // namespace convoy::test
