// Inputs that look alike but differ: a data set with the same images and other class names, and
// ranks that read another data set, model or recipe, or are another build.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "comm/preflight.h"
#include "data/digest.h"
#include "data/shard.h"
#include "supply/data_set.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Copies a data set and gives class 4 another name in every shard.
void copy_with_another_class_name(const std::string& from, const std::string& to) {
    fs::copy(from, to);
    auto json = nlohmann::json::parse(read_file(to + "/manifest.json"));
    for (auto& shard : json["shards"]) {
        const std::string path = to + "/" + shard["file"].get<std::string>();
        {
            const h5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
            std::vector<std::string> names = h5::string_attributes(file, "class_names", path);
            names.at(4) = "another";
            h5::set_checked_attribute(file, "class_names", names);
        }
        shard["bytes"] = fs::file_size(path);
        shard["sha256"] = digest_of_file(Digest::Kind::sha256, path);
    }
    write_file(to + "/manifest.json", json.dump());
}

class Alike : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 60, 20, "28x28x1"); }
    std::string train(const std::string& data, const std::string& more = "") const {
        return "train --model mnist-linear --batch-size 20 --data " + data + " --output " + dir_.path("run") + " " +
               more;
    }
    /// Runs `arguments` on two ranks, and adds `others` to those of the second. Does not use "A :
    /// B", because mpirun of OpenMPI 5.0.7 crashes on it.
    static Finished different(const std::string& arguments, const std::string& others,
                              const std::string& program = sibling("convoy")) {
        return mpirun("-np 2 sh -c 'case $OMPI_COMM_WORLD_RANK in 0) exec " + sibling("convoy") + " " + arguments +
                      " ;; *) exec " + program + " " + others + " ;; esac'");
    }

    TempDir dir_;
    const std::string data_ = dir_.path("data"), renamed_ = dir_.path("renamed");
};

TEST_F(Alike, OtherClassNamesAreAnotherDataSet) {
    copy_with_another_class_name(data_, renamed_);
    ASSERT_EQ("", failure(convoy_alone(train(data_, "--max-steps 2"))));
    EXPECT_EQ("", refusal(convoy_alone(train(renamed_, "--resume auto")), Exit::usage, {"data set", "manifest"}));
    const std::string model = dir_.path("run") + "/model.h5", evaluate = "evaluate --model-file " + model + " --data ";
    EXPECT_EQ("", failure(convoy_alone(evaluate + data_)));
    for (const int ranks : {1, 2})
        EXPECT_EQ("", refusal(launch(ranks, evaluate + renamed_), Exit::bad_input,
                              {model, renamed_, "class 4", "'class 4'", "'another'"}));
}

TEST_F(Alike, RanksWithAnotherDataSetAreRefused) {
    const std::string other = dir_.path("other");  // same number and size of images
    const Finished made =
        convoy_alone("convert synthetic --images 60 --test-images 20 --size 28x28x1 --shards 2 --seed 5 --to " + other);
    ASSERT_EQ("", failure(made));
    const std::vector<std::string> words = {"data set", "SHA-256 of its manifest", "rank 0 has", "rank 1 has",
                                            "same files"};
    EXPECT_EQ("", refusal(different(train(data_), train(other)), Exit::usage, words));
    EXPECT_FALSE(fs::exists(dir_.path("run"))) << "a refused run must leave no folder";
    ASSERT_EQ("", failure(launch(2, train(data_))));
    const std::string evaluate = "evaluate --model-file " + dir_.path("run") + "/model.h5 --data ";
    EXPECT_EQ("", refusal(different(evaluate + data_, evaluate + other), Exit::usage, words));
}

/// A copy of convoy that claims to be built from another commit. It is beside the original, where
/// it finds its libraries, and is removed at the end.
class OtherBuild {
public:
    OtherBuild() {
        const std::string said = convoy_alone("--version").out;  // "convoy 0.2.0-dev (COMMIT)"
        const size_t begin = said.find('(') + 1, end = said.find(')');
        require(begin > 0 && end != std::string::npos && end > begin + 3, "convoy says which commit it was built from");
        commit_ = said.substr(begin, end - begin);
        std::string bytes = read_file(sibling("convoy"));
        const std::string text = commit_ + '\0', other = std::string(commit_.size() - 1, 'x') + "y";
        const size_t first = bytes.find(text);
        require(first != std::string::npos, "the executable holds the commit as text");
        for (size_t at = first; at != std::string::npos; at = bytes.find(text, at + 1))
            bytes.replace(at, other.size(), other);
        write_file(path(), bytes);
        fs::permissions(path(), fs::perms::owner_all);
    }
    ~OtherBuild() {
        std::error_code ignored;
        fs::remove(path(), ignored);
    }
    std::string path() const { return sibling("convoy") + ".other-" + std::to_string(::getpid()); }
    const std::string& commit() const { return commit_; }

private:
    std::string commit_;
};

TEST_F(Alike, RanksOfAnotherBuildAreRefused) {
    const OtherBuild other;
    const std::vector<std::string> words = {"Convoy differs", "rank 0 has", other.commit(),
                                            "rank 1 has",     "xxxy",       "same files"};
    EXPECT_EQ("", refusal(different(train(data_), train(data_), other.path()), Exit::usage, words));
    const std::string bench = "bench --model mnist-linear --batch-size 20 --steps 1 --warmup 0";
    EXPECT_EQ("", refusal(different(bench, bench, other.path()), Exit::usage, words));
}

// The same manifest, number of images and bytes, but two images of other sizes have changed places.
// Ranks would write beyond the memory that the first rank has allocated.
TEST_F(Alike, RanksWithImagesOfOtherSizesAreRefused) {
    const std::string one = dir_.path("one"), other = dir_.path("other"), manifest = "/manifest.json";
    make_ragged(one, ImageLayout::raw);
    make_ragged(other, ImageLayout::raw, 40, [](int i) { return ragged_image(i == 0 ? 3 : i == 3 ? 0 : i); });
    fs::copy_file(one + manifest, other + manifest, fs::copy_options::overwrite_existing);
    const auto train_on = [&](const std::string& data) {
        return "train --model resnet18 --image-size 28 --batch-size 8 --max-steps 1 --data " + data + " --output " +
               dir_.path("ragged-run");
    };
    const std::vector<std::string> words = {"the split train of the data set (SHA-256 of its images' sizes) differs",
                                            "rank 0 has", "rank 1 has", "same files"};
    for (const std::string placement : {" --data-placement replicate", " --data-placement stream"})
        EXPECT_EQ("", refusal(different(train_on(one) + placement, train_on(other) + placement), Exit::usage, words));
    const std::string bench = "bench --model resnet18 --image-size 28 --batch-size 8 --steps 1 --warmup 0 --data ";
    EXPECT_EQ("", refusal(different(bench + one, bench + other), Exit::usage, words));
    ASSERT_EQ("", failure(launch(2, train_on(one))));
    const std::string model = " --model-file " + dir_.path("ragged-run") + "/model.h5 --split train --data ";
    for (const std::string command : {"evaluate", "classify"})
        EXPECT_EQ("", refusal(different(command + model + one, command + model + other), Exit::usage, words));
}

// The same images, as pixels and as JPEG files. A stream reads them in other pieces.
TEST_F(Alike, RanksThatReadOtherPiecesAreRefused) {
    Comm& comm = test_comm();
    if (comm.size() == 1) {
        EXPECT_EQ("", problem_on_ranks(2));
        return;
    }
    const std::string data = dir_.path("set");
    make_ragged(data, comm.root() ? ImageLayout::raw : ImageLayout::jpeg, 20,
                [](int i) { return pattern(500, 900, uint32_t(i)); });
    const SplitReader reader(data, "train");
    const std::unique_ptr<Backend> backend = make_cpu_backend({}, comm);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"SHA-256 of its pieces", "differs"}, [&] {
                  const DataSet images(comm, *backend, reader, 0,
                                       {.placement = Placement::stream, .stream_block = 16 << 20});
              }));
}

// Each rank reads the recipe, and another file may take its place meanwhile.
TEST_F(Alike, RanksWithOtherOptionsAreRefused) {
    const std::string bench = "bench --model mnist-linear --batch-size 20 --steps 1 --warmup 0 ",
                      demo = "demo --model mnist-linear --batch-size 20 --max-steps 1 --data " + data_ + " ";
    for (const std::string& command : {train(data_), bench, demo})
        EXPECT_EQ("", refusal(different(command + "--seed 3", command + "--seed 4"), Exit::usage,
                              {"the options differ: rank 0 has seed = 3, rank 1 has seed = 4", "same recipe"}));
    EXPECT_EQ("", refusal(different(bench, bench + "--data " + data_), Exit::usage,
                          {"rank 0 has data = , rank 1 has data = a folder"}));
    write_file(dir_.path("a.cfg"), "data-placement = stream\n");
    write_file(dir_.path("b.cfg"), "data-placement = replicate\n");
    EXPECT_EQ("", refusal(different(train(data_, "--config " + dir_.path("a.cfg")),
                                    train(data_, "--config " + dir_.path("b.cfg"))),
                          Exit::usage, {"data-placement = stream", "data-placement = replicate"}));
    EXPECT_FALSE(fs::exists(dir_.path("run")));
    fs::copy(data_, dir_.path("copy"));
    EXPECT_EQ("", failure(different(train(data_, "--threads 1"), train(dir_.path("copy"), "--threads 2"))))
        << "hosts may differ";
}

TEST_F(Alike, RanksWithAnotherModelAreRefused) {
    for (const std::string seed : {"1", "2"})
        ASSERT_EQ("", failure(convoy_alone("train --model mnist-linear --batch-size 20 --max-steps 1 --data " + data_ +
                                           " --seed " + seed + " --output " + dir_.path(seed))));
    for (const std::string command : {"evaluate", "classify"}) {
        const auto with = [&](const std::string& run) {
            return command + " --data " + data_ + " --model-file " + dir_.path(run) + "/model.h5";
        };
        EXPECT_EQ("", refusal(different(with("1"), with("2")), Exit::usage,
                              {"the model (SHA-256 of its file) differs", "rank 0 has", "same files"}));
        EXPECT_EQ("", failure(launch(2, with("1"))));
    }
}

// Runs on three ranks, of which the first two agree.
TEST_F(Alike, TheRankThatDiffersIsNamed) {
    Comm& comm = test_comm();
    if (comm.size() == 1) {
        EXPECT_EQ("", problem_on_ranks(3));
        return;
    }
    const std::string mine = comm.rank() == 2 ? "1.14" : "1.10";
    check_alike(comm, {{"zlib", "1.2"}});
    EXPECT_EQ("", problem_of_error(Exit::usage, {"hdf5 differs", "rank 0 has 1.10", "rank 2 has 1.14"},
                                   [&] { check_alike(comm, {{"zlib", "1.2"}, {"hdf5", mine}}); }));
}

}  // namespace
}  // namespace convoy::test
