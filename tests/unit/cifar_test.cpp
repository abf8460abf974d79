// CIFAR's archives in all their forms give the same data set. Python's pickle writes and reads
// them, and h5py reads the shards. Hostile pickles are refused in one line, and none of their code
// runs.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/commands.h"
#include "data/shard.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

namespace fs = std::filesystem;

const std::string python = "/usr/bin/python3 ", script = python + "tests/support/cifar_archives.py ";

/// Returns the action's result, and hides what it prints.
template <class Action> auto quietly(const Action& action) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto result = action();
    testing::internal::GetCapturedStdout();
    testing::internal::GetCapturedStderr();
    return result;
}

class Cifar : public testing::Test {
protected:
    void SetUp() override {
        if (run(python + "-c 'import h5py, numpy'").code != 0) GTEST_SKIP() << "no python3 with h5py and numpy";
        const Finished made = run(script + "make " + dir_.path());
        ASSERT_EQ(made.code, 0) << made.err;
    }
    /// Converts an archive or a folder. Returns the data set's folder, verified.
    std::string converted(const std::string& from, const std::string& to, std::vector<std::string> more = {}) {
        std::vector<std::string> args = {from.find("cifar-100") == std::string::npos ? "cifar10" : "cifar100",
                                         "--from",
                                         dir_.path(from),
                                         "--shards",
                                         "2",
                                         "--to",
                                         dir_.path(to)};
        args.insert(args.end(), more.begin(), more.end());
        EXPECT_EQ(quietly([&] { return convert(args); }), 0);
        EXPECT_EQ(quietly([&] { return verify({dir_.path(to)}); }), 0);
        return dir_.path(to);
    }
    /// Returns the script's complaint; empty if it finds nothing wrong.
    std::string wrong(const std::string& arguments) {
        const Finished f = run(script + arguments);
        return f.code == 0 ? "" : f.err;
    }
    /// Expects one line with `words`, and no data set.
    void expect_refusal(const std::string& from, const std::vector<std::string>& words) {
        const std::string kind = from.find("cifar-100") == std::string::npos ? "cifar10" : "cifar100";
        const std::string problem = quietly([&] {
            return problem_of_error(Exit::bad_input, words,
                                    [&] { convert({kind, "--from", dir_.path(from), "--to", dir_.path("refused")}); });
        });
        EXPECT_EQ("", problem);
        EXPECT_FALSE(fs::exists(dir_.path("refused")));
    }
    /// The folder of CIFAR-10's Python version, unpacked.
    std::string unpacked() {
        EXPECT_EQ(run("tar -C " + dir_.path() + " -xzf " + dir_.path("python2/cifar-10-python.tar.gz")).code, 0);
        return dir_.path("cifar-10-batches-py");
    }

    TempDir dir_;
};

TEST_F(Cifar, PickledArchivesAreThatOfRecords) {
    for (const std::string kind : {"cifar-10", "cifar-100"}) {
        const std::string records = converted("binary/" + kind + "-binary.tar.gz", kind + "-records");
        for (const std::string form : {"python2", "fortran", "python3", "bytes", "numpy2"}) {
            const std::string from = form + "/" + kind + "-python.tar.gz", set = converted(from, kind + "-" + form);
            EXPECT_EQ("", wrong("same " + records + " " + set)) << form;
            const std::string keys = kind == "cifar-10" ? " labels label_names" : " fine_labels fine_label_names";
            EXPECT_EQ("", wrong("holds " + set + " " + dir_.path(from) + keys)) << form;
        }
    }
    EXPECT_EQ(SplitReader(dir_.path("cifar-100-records"), "train").info().classes, 100);
}

TEST_F(Cifar, SuperclassesAreTakenOnRequest) {
    const std::string from = "python2/cifar-100-python.tar.gz", set = converted(from, "coarse", {"--coarse"}),
                      records = converted("binary/cifar-100-binary.tar.gz", "coarse-records", {"--coarse"});
    EXPECT_EQ("", wrong("holds " + set + " " + dir_.path(from) + " coarse_labels coarse_label_names"));
    EXPECT_EQ("", wrong("same " + records + " " + set));
    EXPECT_EQ(SplitReader(set, "train").info().classes, 20);
}

TEST_F(Cifar, UnpackedFoldersAreTheArchive) {
    unpacked();
    const std::string archive = converted("python2/cifar-10-python.tar.gz", "of-archive");
    EXPECT_EQ("", wrong("same " + archive + " " + converted("cifar-10-batches-py", "of-folder")));
    EXPECT_EQ("", wrong("same " + archive + " " + converted("", "of-parent"))) << "the folder that holds it";
}

TEST_F(Cifar, TakesTheFirstImagesOfEachBatch) {
    const std::string set = converted("python2/cifar-10-python.tar.gz", "some", {"--limit-per-file", "2"});
    EXPECT_EQ(SplitReader(set, "train").info().images, 10);
    EXPECT_EQ(SplitReader(set, "test").info().images, 2);
}

TEST_F(Cifar, LinesOfNamesMayEndAsOnWindows) {
    ASSERT_EQ(run("cd " + dir_.path() +
                  " && tar -xzf binary/cifar-10-binary.tar.gz && "
                  "sed -i 's/$/ \\r/; 3a\\\r' cifar-10-batches-bin/batches.meta.txt")
                  .code,
              0);
    const std::vector<std::string> names =
        SplitReader(converted("cifar-10-batches-bin", "names"), "train").info().class_names;
    ASSERT_EQ(names.size(), 10u);
    EXPECT_EQ(names[0], "kind 0");
    EXPECT_EQ(names[9], "kind 9");
}

// `tar -r` leaves an archive like this if the file was in it already.
TEST_F(Cifar, ABatchThatIsThereTwiceIsRefused) {
    unpacked();
    ASSERT_EQ(run("cd " + dir_.path() +
                  " && mkdir twice && tar -cf twice/a.tar cifar-10-batches-py && tar -rf twice/a.tar "
                  "cifar-10-batches-py/data_batch_2 && gzip -c twice/a.tar >twice/cifar-10-python.tar.gz")
                  .code,
              0);
    expect_refusal("twice/cifar-10-python.tar.gz", {"data_batch_2: occurs twice"});
}

// A pickle may call anything. Python's own reader makes the call; ours must not.
TEST_F(Cifar, PicklesThatWantACommandRunNothing) {
    const std::string batch = unpacked() + "/data_batch_3", marker = dir_.path("run-by-pickle"),
                      command = "touch " + marker;
    const std::string call =
        "\x80\x02"
        "cposix\nsystem\nU" +
        std::string(1, char(command.size())) + command + "\x85R.";
    write_file(batch, call);
    expect_refusal("cifar-10-batches-py", {"data_batch_3", "byte 2", "wants posix.system"});
    EXPECT_FALSE(fs::exists(marker));
    run(python + "-c 'import pickle, sys; pickle.load(open(sys.argv[1], \"rb\"))' " + batch);
    EXPECT_TRUE(fs::exists(marker)) << "the file is what it claims to be";
    fs::remove(marker);

    // The same within a batch that is otherwise whole, after the version and the dict.
    const std::string meta = unpacked() + "/batches.meta", whole = read_file(meta);
    write_file(meta, whole.substr(0, whole.size() - 2) + "U\x04name" + call.substr(2, call.size() - 3) +
                         whole.substr(whole.size() - 2));
    expect_refusal("cifar-10-batches-py", {"batches.meta", "wants posix.system"});
    EXPECT_FALSE(fs::exists(marker));
}

TEST_F(Cifar, BrokenPicklesAreOneLine) {
    const std::string batch = unpacked() + "/data_batch_3", whole = read_file(batch);
    const auto with = [&](const std::string& what, const std::string& by) {
        const size_t at = whole.find(what);
        EXPECT_NE(at, std::string::npos) << what;
        std::string changed = whole;
        write_file(batch, changed.replace(at, what.size(), by));
    };
    const auto refused = [&](std::vector<std::string> words) {
        words.emplace_back("data_batch_3");
        expect_refusal("cifar-10-batches-py", words);
    };
    const auto bytes = [](std::initializer_list<int> values) {
        std::string text;
        for (const int value : values) text += char(value);
        return text;
    };
    for (const size_t length : {size_t(1), size_t(100), whole.size() / 2, whole.size() - 1}) {
        write_file(batch, whole.substr(0, length));
        refused({"truncated"});
    }
    write_file(batch, "");
    refused({"byte 0", "truncated"});
    write_file(batch, whole + ".");
    refused({"does not end with one dict"});
    write_file(batch, "(dp0\nS'data'\n.");
    refused({"byte 0", "is no pickle of protocol 2"});
    with(bytes({'K', 4, 'M', 0, 12}), bytes({'K', 5, 'M', 0, 12}));
    refused({"an array of 5 x 3072 in 12288 bytes"});
    with(bytes({'K', 4, 'M', 0, 12}), bytes({'M', 0, 12, 'K', 4}));
    refused({"'data' of 3072 x 4 and 4 'labels'"});
    with("u1", "i4");
    refused({"another type than uint8"});
    with("labels", "lapels");
    refused({"has no 'labels'"});
    with("cnumpy\ndtype\n", "cbuiltins\neval\n");
    refused({"wants builtins.eval"});
    const size_t labels = whole.find("]", whole.find("labels"));
    const size_t label = whole.find("(K", labels) + 2;
    std::string changed = whole;
    changed[label] = 10;
    write_file(batch, changed);
    refused({"row 0 has label 10, allowed is 0 to 9"});
    changed = whole;
    changed[label - 1] = 'J';
    changed.replace(label, 1, "\xff\xff\xff\xff", 4);
    write_file(batch, changed);
    refused({"row 0 has label -1"});
    write_file(batch, whole.substr(0, label - 1) + "N" + whole.substr(label + 1));
    refused({"a list of other things"});
}

TEST_F(Cifar, LabelsBeyondTheClassesOfCifar100AreNamed) {
    const std::string folder = dir_.path("cifar-100-binary"), archive = dir_.path("binary/cifar-100-binary.tar.gz");
    ASSERT_EQ(run("tar -C " + dir_.path() + " -xzf " + archive).code, 0);
    const std::string whole = read_file(folder + "/train.bin");
    std::string bytes = whole;
    bytes[3074 * 2 + 1] = 100;
    write_file(folder + "/train.bin", bytes);
    expect_refusal("cifar-100-binary", {"train.bin", "row 2 (byte 6149)", "label 100", "0 to 99"});
    write_file(folder + "/train.bin", bytes.substr(1));
    expect_refusal("cifar-100-binary", {"train.bin", "not a multiple of the 3074"});
    write_file(folder + "/train.bin", whole);
    fs::remove(folder + "/fine_label_names.txt");
    expect_refusal("cifar-100-binary", {"missing", "cifar-100-binary.tar.gz"});
}

}  // namespace
}  // namespace convoy::test
