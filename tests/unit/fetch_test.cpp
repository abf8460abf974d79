// input/fetch.sh against servers on 127.0.0.1: whole, broken and resumed, wrong, absent. Run from
// the repository's root.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/digest.h"
#include "tests/support/cluster.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Makes dir/www/cifar.tar.gz, packed like the official archive, with two images per batch. Returns
/// its bytes.
std::string make_archive(const TempDir& dir) {
    for (int batch = 0; batch < 6; ++batch) {
        std::string bytes;
        for (int i = 0; i < 2 * 3073; ++i)
            bytes += i % 3073 == 0 ? char((batch + i) % 10) : char(i * 7919 >> 3 ^ batch);
        const std::string name = batch == 5 ? "test_batch.bin" : "data_batch_" + std::to_string(batch + 1) + ".bin";
        write_file(dir.path("cifar-10-batches-bin/" + name), bytes);
    }
    write_file(dir.path("cifar-10-batches-bin/batches.meta.txt"), "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
    fs::create_directories(dir.path("www"));
    run("tar -C " + dir.path() + " -czf " + dir.path("www/cifar.tar.gz") + " cifar-10-batches-bin");
    return read_file(dir.path("www/cifar.tar.gz"));
}

class Fetch : public testing::Test {
protected:
    void SetUp() override {
        if (run("command -v python3 curl").code != 0) GTEST_SKIP() << "needs python3 and curl";
        archive_ = make_archive(dir_);
        settings_ = "CIFAR10_MD5=" + digest_of(Digest::Kind::md5, archive_.data(), archive_.size()) +
                    " CIFAR10_BYTES=" + std::to_string(archive_.size()) + " CIFAR10_DIR=" + dir_.path("in") +
                    " CONVOY=" + sibling("convoy") + " ";
    }

    /// Runs fetch.sh while a server serves www/. `server` is the server's command line; it prints
    /// its port first.
    Finished fetch(const std::string& server, const std::string& settings = "") const {
        return run("exec 3< <(" + server + " & echo pid $!; wait)\n" +
                   "while read -r -u 3 line; do case $line in pid*) pid=${line#pid };; *) port=$(grep -oE '[0-9]{4,5}' "
                   "<<<\"$line\" | tail "
                   "-1); break;; esac; done\n" +
                   "trap 'kill $pid' EXIT\n" + settings_ + settings +
                   " CIFAR10_URL=http://127.0.0.1:$port/cifar.tar.gz bash input/fetch.sh");
    }
    Finished fetch_ranges(const std::string& environment = "", const std::string& settings = "") const {
        return fetch(environment + " python3 tests/support/range_server.py " + dir_.path("www"), settings);
    }
    std::string requests() const { return read_file(dir_.path("www/requests.log")); }

    TempDir dir_;
    std::string archive_, settings_;
};

TEST_F(Fetch, FetchesConvertsAndIsIdempotent) {
    const Finished first = fetch_ranges();
    EXPECT_EQ(first.code, 0) << first.err;
    EXPECT_EQ(run(sibling("convoy") + " verify " + dir_.path("in/cifar10")).code, 0);
    EXPECT_EQ(requests(), "/cifar.tar.gz -\n");
    EXPECT_EQ(fetch_ranges().code, 0);
    EXPECT_EQ(requests(), "/cifar.tar.gz -\n") << "fetched again although it was there";
}

TEST_F(Fetch, ResumesABrokenDownload) {
    const Finished broken = fetch_ranges("BREAK_AFTER=1000");
    EXPECT_EQ(broken.code, 5);
    EXPECT_NE(broken.err.find("connection broke after 1000 of"), std::string::npos) << broken.err;
    EXPECT_FALSE(fs::exists(dir_.path("in/cifar10")));
    const Finished resumed = fetch_ranges();
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(requests(), "/cifar.tar.gz -\n/cifar.tar.gz bytes=1000-\n");
    EXPECT_TRUE(fs::exists(dir_.path("in/cifar10/manifest.json")));
}

TEST_F(Fetch, StartsAgainWhereTheServerCannotResume) {
    write_file(dir_.path("in/download/cifar-10-binary.tar.gz.part"), archive_.substr(0, 700));
    const Finished finished =
        fetch("python3 -u -m http.server --bind 127.0.0.1 --directory " + dir_.path("www") + " 0");
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(read_file(dir_.path("in/download/cifar-10-binary.tar.gz")), archive_);
}

TEST_F(Fetch, KeepsAWrongFileAsideAndConvertsNothing) {
    const Finished finished = fetch_ranges("", "CIFAR10_MD5=c32a1d4ab5d03f1284b67883e8d87530");
    EXPECT_EQ(finished.code, 3);
    EXPECT_NE(finished.err.find("MD5"), std::string::npos) << finished.err;
    EXPECT_TRUE(fs::exists(dir_.path("in/download/cifar-10-binary.tar.gz.bad")));
    EXPECT_FALSE(fs::exists(dir_.path("in/download/cifar-10-binary.tar.gz")));
    EXPECT_FALSE(fs::exists(dir_.path("in/cifar10")));
}

// Others who may write into the folder could otherwise choose the file that gets the download.
TEST_F(Fetch, ALinkInItsFolderIsNotFollowed) {
    const auto expect_refused = [](const Finished& f, const std::string& words) {
        EXPECT_EQ(f.code, int(Exit::usage));
        EXPECT_EQ(f.err.find("fetch: " + words), 0u) << f.err;
    };
    const std::string mine = dir_.path("mine"), folder = dir_.path("in/download");
    write_file(mine, "mine");
    fs::create_directories(folder);
    for (const std::string ending : {"", ".part", ".bad"}) {
        const std::string link = folder + "/cifar-10-binary.tar.gz" + ending;
        fs::create_symlink(mine, link);
        expect_refused(fetch_ranges(), link + " is a link; remove it");
        fs::remove(link);
    }
    fs::rename(folder, dir_.path("elsewhere"));
    fs::create_directory_symlink(dir_.path("elsewhere"), folder);
    expect_refused(fetch_ranges(), folder + " is a link or belongs to another user");
    EXPECT_EQ(read_file(mine), "mine");
    EXPECT_TRUE(fs::is_empty(dir_.path("elsewhere")));
    record_fault("links in the folder that CIFAR-10 is fetched into", "not followed", "as promised", 4);
}

// In a group's folder, others may rename the folder while curl waits for its first byte.
TEST_F(Fetch, AnExchangedFolderGetsNothing) {
    const std::string in = dir_.path("in"), mine = dir_.path("mine");
    write_file(mine, "mine");
    write_file(dir_.path("bin/curl"), "#!/bin/bash\nmv " + in + "/download " + in + "/moved; mkdir " + in +
                                          "/download; ln -s " + mine + " " + in +
                                          "/download/cifar-10-binary.tar.gz.part\n"
                                          "while [[ $1 != --output ]]; do shift; done; cp " +
                                          dir_.path("www/cifar.tar.gz") + " \"$2\"\n");
    fs::permissions(dir_.path("bin/curl"), fs::perms(0755));
    const Finished f = run("PATH=" + dir_.path("bin") + ":$PATH " + settings_ + "bash input/fetch.sh");
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(read_file(mine), "mine");
    EXPECT_EQ(convoy_alone("verify " + in + "/cifar10").code, 0);
}

TEST_F(Fetch, AFolderThatOthersMayWriteIsRefused) {
    fs::create_directories(dir_.path("in/download"));
    fs::permissions(dir_.path("in/download"), fs::perms(0775));
    const Finished f = fetch_ranges();
    EXPECT_EQ(f.code, 2);
    EXPECT_NE(f.err.find("others may write in"), std::string::npos) << f.err;
}

TEST_F(Fetch, SaysInOneLineThatThereIsNoNetwork) {
    const Finished finished = run(settings_ + "CIFAR10_URL=http://127.0.0.1:9/cifar.tar.gz bash input/fetch.sh");
    EXPECT_EQ(finished.code, 5);
    EXPECT_NE(finished.err.find("cannot reach http://127.0.0.1:9/ (no network?)"), std::string::npos) << finished.err;
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    const Finished moved = fetch_ranges("", "CIFAR10_BYTES=10");
    EXPECT_EQ(moved.code, 3) << moved.err;
}

}  // namespace
}  // namespace convoy::test
