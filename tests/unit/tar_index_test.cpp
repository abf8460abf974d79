// Archives generated header by header, as by writers other than GNU tar. The expected lists are
// those of GNU tar for the same bytes, where it can read them.
#include "data/tar_index.h"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

constexpr size_t block = 512;
const std::string end_mark(2 * block, '\0');

std::string octal(size_t value, size_t digits) {
    std::string text;
    for (; digits-- > 0; value /= 8) text.insert(text.begin(), char('0' + value % 8));
    return text;
}

/// Returns a member of `type` whose header claims `claimed` bytes.
std::string member(const std::string& name, const std::string& content, char type = '0', size_t claimed = SIZE_MAX,
                   bool signed_sum = false) {
    std::string header(block, '\0');
    header.replace(0, name.size(), name);
    header.replace(100, 7, "0000644");
    header.replace(108, 7, "0000000");
    header.replace(116, 7, "0000000");
    header.replace(124, 11, octal(claimed == SIZE_MAX ? content.size() : claimed, 11));
    header.replace(136, 11, "00000000000");
    header[156] = type;
    if (type == '1' || type == '2') header.replace(157, 5, "a/one");
    header.replace(257, 8, std::string("ustar\00000", 8));
    header.replace(148, 8, "        ");
    size_t sum = 0;
    for (const char c : header) sum += size_t(signed_sum ? c : static_cast<unsigned char>(c));
    header.replace(148, 8, octal(sum & 0777777, 6) + std::string("\0 ", 2));
    return header + content + std::string((block - content.size() % block) % block, '\0');
}

class TarIndex : public testing::Test {
protected:
    /// Returns "NAME=CONTENT" of each file, separated by blanks.
    std::string files_of(const std::string& bytes, int64_t* links = nullptr) const {
        write_file(path_, bytes);
        const InputBytes file(path_);
        std::string all;
        int64_t found = 0;
        index_tar(file, 0, file.size(), [&](const TarPlace& place) {
            found += place.is_link;
            if (place.is_link) return;
            std::string content(size_t(place.bytes), '\0');
            file.read(place.offset, place.bytes, content.data());
            all += (all.empty() ? "" : " ") + place.name + "=" + content;
        });
        if (links) *links = found;
        return all;
    }
    /// Returns the files that GNU tar lists for the last bytes given to files_of(), separated by
    /// blanks.
    std::string listed_by_tar(const std::string& options = "") const {
        const Finished f = run("tar " + options + " -tvf " + path_ + " | awk '/^-/ { print $6 }' | paste -sd ' '");
        return f.out.substr(0, f.out.find('\n'));
    }
    std::string problem(const std::string& bytes, const std::vector<std::string>& words) const {
        return problem_of_error(Exit::bad_input, words, [&] { files_of(bytes); });
    }

    TempDir dir_;
    const std::string path_ = dir_.path("x.tar");
    const std::string one_ = member("a/one", "first"), two_ = member("b/two", "second");
};

TEST_F(TarIndex, JoinedArchivesAreOne) {
    for (const size_t zeros : {size_t(0), block, 20 * block, size_t(3) << 20}) {
        EXPECT_EQ(files_of(one_ + end_mark + std::string(zeros, '\0') + two_ + end_mark), "a/one=first b/two=second");
        EXPECT_EQ(listed_by_tar("-i"), "a/one b/two") << zeros;
    }
    EXPECT_EQ("", problem(one_ + end_mark + two_, {"truncated"})) << "the second has no mark of its end";
}

TEST_F(TarIndex, OtherBytesAfterTheEndAreRefusedByTheirPlace) {
    const std::string whole = one_ + end_mark;
    for (const std::string& rest : {std::string("junk"), std::string(700, 'x'), std::string(3, '\0') + two_})
        EXPECT_EQ("", problem(whole + rest,
                              {path_ + ": at byte " + std::to_string(whole.size() + rest.find_first_not_of('\0')),
                               "no archive follow"}));
    EXPECT_EQ(files_of(whole + std::string(100, '\0')), "a/one=first") << "half a block of zeros means nothing";
}

TEST_F(TarIndex, SumsOfSignedBytesAreRead) {
    const std::string name = "caf\xc3\xa9/x";
    EXPECT_EQ(files_of(member(name, "cup", '0', SIZE_MAX, true) + end_mark), name + "=cup");
    EXPECT_EQ(files_of(member(name, "cup") + end_mark), name + "=cup");
    std::string odd = member(name, "cup", '0', SIZE_MAX, true);
    odd[3] = 'X';
    EXPECT_EQ("", problem(odd + end_mark, {"checksum"}));
}

// A link's size is often that of its target, and a folder's that of its entries.
TEST_F(TarIndex, MembersWithoutContentTakeNoRoom) {
    for (const char type : {'1', '2', '3', '4', '5', '6'}) {
        int64_t links = 0;
        EXPECT_EQ(files_of(one_ + member("a/same", "", type, 5000) + two_ + end_mark, &links),
                  "a/one=first b/two=second")
            << type;
        EXPECT_EQ(links, type < '3' ? 1 : 0);
        if (type == '1') {
            EXPECT_EQ(listed_by_tar(), "a/one b/two");
        }
        EXPECT_EQ(files_of(one_ + member("a/same", "", type, 5000) + end_mark), "a/one=first") << type;
        // pax -o linkdata stores the content
        EXPECT_EQ(files_of(one_ + member("a/same", std::string(5000, 'c'), type) + two_ + end_mark),
                  "a/one=first b/two=second")
            << type;
    }
}

TEST_F(TarIndex, FoldersOfOldArchivesAndUnknownTypes) {
    EXPECT_EQ(files_of(member("old/x.jpg/", "", '\0') + one_ + end_mark), "a/one=first");
    EXPECT_EQ(files_of(member("a/new", "content", '8') + two_ + end_mark), "a/new=content b/two=second")
        << "POSIX: a type that is not known is a regular file";
    EXPECT_EQ(files_of(member("dump", std::string(600, 'd'), 'D') + two_ + end_mark), "b/two=second");
    EXPECT_EQ("", problem(member("part", "rest", 'M') + end_mark, {"volume of a larger archive"}));
}

TEST_F(TarIndex, SparseFilesAreRefusedInEveryForm) {
    ASSERT_EQ(run("cd " + dir_.path() + " && truncate -s 1M hole && printf x >>hole").code, 0);
    for (const char* format :
         {"gnu", "pax --sparse-version=0.0", "pax --sparse-version=0.1", "pax --sparse-version=1.0"}) {
        ASSERT_EQ(run("cd " + dir_.path() + " && tar --sparse --format=" + format + " -cf sparse.tar hole").code, 0);
        EXPECT_EQ("", problem(read_file(dir_.path("sparse.tar")), {"sparse"})) << format;
    }
}

// A kilobyte that claims a terabyte is refused for what it is, before any of it is read.
TEST_F(TarIndex, SparseFilesMayClaimNothing) {
    constexpr size_t TB = 1'000'000'000'000;
    const auto pax = [&](const std::string& key) {
        const std::string tail = " " + key + "=" + std::to_string(TB) + "\n";
        return member("pax", std::to_string(tail.size() + 2) + tail, 'x');
    };
    for (const char* key : {"GNU.sparse.size", "GNU.sparse.realsize", "GNU.sparse.map"})
        EXPECT_EQ("", problem(pax(key) + one_ + end_mark, {path_, "holds a sparse file"})) << key;
    EXPECT_EQ("", problem(member("hole.jpg", "", 'S') + end_mark, {path_, "holds a sparse file"}));
    EXPECT_EQ("", problem(pax("size") + one_ + end_mark, {path_, "reaches beyond its end"}));
    constexpr size_t most_of_the_field = (size_t(8) << 30) - 1;
    for (const char type : {'0', 'S', 'x', 'L'})
        EXPECT_EQ("", problem(member("hole.jpg", "", type, most_of_the_field), {path_, "reaches beyond its end"}))
            << type;
}

// A megabyte was read after each mark of an end.
TEST_F(TarIndex, ManyArchivesInOneTakeTheTimeOfTheirBytes) {
    const auto seconds = [&](const std::string& part) {
        std::string all;
        for (int i = 0; i < 5'000; ++i) all += part;
        write_file(path_, all + end_mark);
        const InputBytes file(path_);
        int found = 0;
        const std::clock_t start = std::clock();
        index_tar(file, 0, file.size(), [&](const TarPlace&) { ++found; });
        EXPECT_EQ(found, 5'000);
        return double(std::clock() - start) / CLOCKS_PER_SEC;
    };
    const double apart = seconds(one_ + std::string(block, '\0')), together = seconds(one_);
    EXPECT_LT(apart, 8 * together) << together << " s without the marks";
}

// An archive of a few kilobytes may be followed by terabytes of nothing, which took hours.
TEST_F(TarIndex, WhatFollowsTheEndIsAnArchiveOrZeros) {
    const auto names = [&] {
        const InputBytes file(path_);
        std::string all;
        index_tar(file, 0, file.size(), [&](const TarPlace& place) { all += place.name + " "; });
        return all;
    };
    const auto put = [&](int64_t at, const std::string& bytes) {
        std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(at) << bytes;
    };
    constexpr int64_t zeros = int64_t(12) << 20;
    write_file(path_, one_ + end_mark);
    std::filesystem::resize_file(path_, zeros);
    EXPECT_EQ(names(), "a/one ");
    put(zeros, two_ + end_mark);
    EXPECT_EQ(names(), "a/one b/two ");
    put(zeros - 10'000, "junk");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"at byte " + std::to_string(zeros - 10'000), "no archive follow"},
                                   names));
    std::filesystem::resize_file(path_, int64_t(64) << 30);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "are a hole"}, names));
}

TEST_F(TarIndex, PaxRecordsMayBeFilledWithZeros) {
    const std::string record = "13 path=long\n";
    EXPECT_EQ(files_of(member("pax", record + std::string(40, '\0'), 'x') + member("cut", "c") + end_mark), "long=c");
    EXPECT_EQ("", problem(member("pax", record + std::string(40, '\0') + "x", 'x') + one_ + end_mark, {"pax header"}));
}

// Each record costs as much as its own length, whatever the name before it. Otherwise this test
// would take much longer.
TEST_F(TarIndex, ALongNameBeforeManyRecordsCostsNothing) {
    constexpr size_t most_header = 1 << 20;
    const std::string name = "a/" + std::string((4 << 10) - 2, 'n');
    std::string records = std::to_string(4 + 1 + 5 + name.size() + 1) + " path=" + name + "\n";
    while (records.size() < most_header - 16) records += "6 a=b\n";
    std::string all;
    for (int i = 0; i < 80; ++i) all += member("pax", records, 'x') + one_;
    const std::string found = files_of(all + end_mark);
    EXPECT_EQ(found.size(), 80 * (name.size() + std::string("=first ").size()) - 1);
    EXPECT_TRUE(found.starts_with(name + "=first " + name));
}

// No file system has such names, and each of a million parts would cost time and memory.
TEST_F(TarIndex, ANameThatNoFileHasIsDamage) {
    std::string name;
    while (name.size() < (4 << 10) + 1) name += "a/";
    const std::string record = std::to_string(4 + 1 + 5 + name.size() + 1 + 1) + " path=" + name + "x\n";
    EXPECT_EQ("", problem(member("pax", record, 'x') + one_ + end_mark, {path_, "a name is longer than 4 KiB"}));
    EXPECT_EQ("", problem(member("././@LongLink", name + "x" + '\0', 'L') + one_ + end_mark, {"a name is longer"}));
}

TEST_F(TarIndex, AZeroByteInALongNameIsDamage) {
    const std::string record("14 path=a\0b/c\n", 14);
    EXPECT_EQ("", problem(member("pax", record, 'x') + one_ + end_mark, {"pax header"}));
}

// The long name of a link, folder or pipe does not apply to the next member.
TEST_F(TarIndex, ALongNameIsOfItsMemberAlone) {
    const std::string name(120, 'n');
    for (const char type : {'1', '2', '5', '6'}) {
        const std::string record = std::to_string(4 + 5 + name.size() + 1) + " path=" + name + "\n";
        EXPECT_EQ(files_of(member("././@LongLink", name + '\0', 'L') + member("cut", "", type) + two_ + end_mark),
                  "b/two=second")
            << type;
        EXPECT_EQ(files_of(member("pax", record, 'x') + member("cut", "", type) + two_ + end_mark), "b/two=second")
            << type;
    }
}

// GNU tar, Python and older programs choose differently, and labels are taken from names.
TEST_F(TarIndex, TwoNamesOfOneMemberAreRefused) {
    const auto pax = [](const std::string& key, const std::string& value, char type) {
        const std::string tail = " " + key + "=" + value + "\n";
        return member("pax", std::to_string(tail.size() + 2) + tail, type);
    };
    const std::string gnu = member("././@LongLink", std::string("cat/long\0", 9), 'L'),
                      path = pax("path", "dog/long", 'x'), comment = pax("comment", "0123456789", 'x');
    for (const std::string& two : {gnu + path, path + gnu, gnu + gnu})
        EXPECT_EQ("", problem(two + one_ + end_mark, {path_, "a member has two long names"}));
    EXPECT_EQ("", problem(path + comment + one_ + end_mark, {path_, "a member has two pax headers"}));
    EXPECT_EQ(files_of(gnu + comment + one_ + end_mark), "cat/long=first");
    EXPECT_EQ(listed_by_tar(), "cat/long");
    EXPECT_EQ(files_of(comment + gnu + one_ + end_mark), "cat/long=first");
    for (const char* key : {"path", "size", "GNU.sparse.major"})
        EXPECT_EQ("",
                  problem(pax(key, "10000000", 'g') + one_ + end_mark, {path_, "gives all members a name or a size"}))
            << key;
    EXPECT_EQ(files_of(pax("comment", "0123456789", 'g') + one_ + end_mark), "a/one=first") << "as git archive does";
}

}  // namespace
}  // namespace convoy::test
