// Data sets of float32 vectors: standard normal numbers when h5py reads them, verified, and trained
// alike on one and two ranks. Options for images only are refused.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <filesystem>

#include "data/shard.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

const std::string python = "/usr/bin/python3 ";

class Vectors : public testing::Test {
protected:
    std::string make(int images, const std::string& size, const std::string& more = "") {
        const std::string set = dir_.path("set" + std::to_string(++made_));
        EXPECT_EQ("", failure(convoy_alone("convert synthetic --kind normal --images " + std::to_string(images) +
                                           " --size " + size + " --to " + set + " " + more)));
        return set;
    }

    TempDir dir_;
    int made_ = 0;
};

// The bounds are 5 deviations: 1 / sqrt(40000) of a mean, sqrt(2 / 40000) of a variance, sqrt(0.09
// / 4000) of a share.
TEST_F(Vectors, AreStandardNormalOfRandomClasses) {
    if (run(python + "-c 'import h5py, numpy'").code != 0) GTEST_SKIP() << "no python3 with h5py and numpy";
    const std::string set = make(4000, "1x1x10", "--shards 2");
    const Finished f = run(python + R"(-c "
import h5py, numpy, sys
shards = [h5py.File(sys.argv[1] + '/train-0000%d-of-00002.h5' % i) for i in (0, 1)]
x = numpy.concatenate([s['images'][:] for s in shards]); y = numpy.concatenate([s['labels'][:] for s in shards])
assert x.shape == (4000, 1, 1, 10) and x.dtype == '<f4' and y.shape == (4000,)
assert abs(x.mean()) < 5 * 0.005 and abs(x.var() - 1) < 5 * 0.0071, (x.mean(), x.var())
assert abs(numpy.corrcoef(x[:, 0, 0, 0], x[:, 0, 0, 1])[0, 1]) < 5 / 63
assert 3.3 < x.max() < 6 and -6 < x.min() < -3.3
assert len(numpy.unique(x)) > 39900
for c in range(10): assert abs((y == c).mean() - 0.1) < 5 * 0.0048, c
s = shards[0]
assert s.attrs['format'] == b'convoy-vectors'
assert list(s.attrs['mean']) == [0] * 10 and list(s.attrs['stddev']) == [1] * 10
assert 'pictures' not in s
test = h5py.File(sys.argv[1] + '/test-00000-of-00001.h5')['images'][:]
assert len(test) == 800 and not (test.reshape(-1, 1, 10) == x.reshape(1, -1, 10)).all(axis=2).any()
" )" + set);
    EXPECT_EQ(f.code, 0) << f.err;
    const Finished verified = convoy_alone("verify " + set);
    EXPECT_EQ("", failure(verified));
    EXPECT_NE(verified.out.find("4000 vectors 1x1x10, 10 classes"), std::string::npos) << verified.out;
}

TEST_F(Vectors, AreAFunctionOfTheirArguments) {
    const std::string first = make(20, "1x1x10"), again = make(20, "1x1x10"), other = make(20, "1x1x10", "--seed 1");
    EXPECT_EQ(read_file(first + "/manifest.json"), read_file(again + "/manifest.json"));
    EXPECT_NE(read_file(first + "/manifest.json"), read_file(other + "/manifest.json"));
}

// 30 steps of softmax regression: one rank and two compute the same sums, except for the order of
// ten products, each rounded to 6e-8.
TEST_F(Vectors, TrainAlikeOnOneAndTwoRanks) {
    const std::string set = make(100, "1x1x10");
    std::vector<std::vector<double>> losses;
    for (const int ranks : {1, 2}) {
        const std::string out = dir_.path("run" + std::to_string(ranks));
        ASSERT_EQ("", failure(launch(ranks,
                                     "train --device cpu --threads 1 --model linear --lr 0.1 --batch-size 10 "
                                     "--epochs 3 --data " +
                                         set + " --output " + out)));
        losses.push_back(column(out, "train/loss"));
        ASSERT_EQ("", failure(convoy_alone("evaluate --model-file " + out + "/model.h5 --data " + set)));
    }
    ASSERT_EQ(losses[0].size(), 30u);
    EXPECT_LT(deviation(losses[0], losses[1]), 1e-5);
    EXPECT_GT(losses[0][0], 1.5) << "near log(10), for there is nothing to guess by";
}

TEST_F(Vectors, AreNotEvaluatedByAModelOfImages) {
    const std::string vectors = make(20, "1x1x10"), images = dir_.path("images");
    make_data(images, 20, 4, "1x1x10");
    for (const auto& [trained, other, words] :
         {std::tuple{images, vectors, "trained on images, but "}, {vectors, images, "trained on vectors, but "}}) {
        const std::string out = trained + "-run", evaluate = "evaluate --device cpu --data " + other + " --model-file ";
        ASSERT_EQ("", failure(convoy_alone("train --device cpu --model linear --batch-size 4 --max-steps 2 --data " +
                                           trained + " --output " + out)));
        for (const std::string file : {"/model.h5", "/checkpoints/step-000000000002.h5"})
            EXPECT_EQ("", refusal(launch(2, evaluate + out + file), Exit::bad_input, {out + file, words, other}));
        EXPECT_EQ("", failure(convoy_alone("evaluate --device cpu --data " + trained + " --model-file " + out +
                                           "/checkpoints/step-000000000002.h5")));
    }
}

TEST_F(Vectors, HaveNoLeftAndRight) {
    const std::string set = make(20, "1x1x10"), train = "train --device cpu --model linear --batch-size 4 --output " +
                                                        dir_.path("run") + " --data " + set;
    for (const std::string option :
         {"--flip", "--crop-pad 1", "--color-jitter 0.4", "--mixup 0.2", "--cutmix 1", "--tta mirror"})
        EXPECT_EQ("", refusal(convoy_alone(train + " " + option), Exit::usage,
                              {option.substr(0, option.find(' ')), "holds vectors"}));
    const std::string large = make(20, "32x32x3");
    EXPECT_EQ("", refusal(convoy_alone("train --device cpu --model airbench94 --batch-size 4 --output " +
                                       dir_.path("run") + " --data " + large),
                          Exit::usage, {"airbench94", "holds vectors"}));
}

TEST_F(Vectors, ThatAreNotFiniteAreRefused) {
    const std::string set = make(20, "1x1x10", "--shards 1"), shard = set + "/train-00000-of-00001.h5";
    {
        const h5::Handle file(H5Fopen(shard.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        std::vector<float> rows(200, 0);
        rows[73] = NAN;
        h5::write_rows(h5::open_dataset(file, "/images", shard), H5T_NATIVE_FLOAT, 0, 20, rows.data(), shard);
    }
    std::vector<float> read(200);
    std::vector<int32_t> labels(20);
    const SplitReader reader(set, "train");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {shard, "row 7", "not finite"}, [&] {
                  reader.read(0, 20, reinterpret_cast<uint8_t*>(read.data()), labels.data());
              }));
}

TEST_F(Vectors, BesideImagesAreRefused) {
    const std::string set = make(20, "4x4x1", "--shards 2"), images = dir_.path("images"),
                      name = "/train-00001-of-00002.h5";
    make_data(images, 20, 4, "4x4x1");
    std::filesystem::copy_file(images + name, set + name, std::filesystem::copy_options::overwrite_existing);
    std::string manifest = read_file(set + "/manifest.json");
    const auto bytes = [](const std::string& path) { return std::to_string(std::filesystem::file_size(path)); };
    const size_t at = manifest.rfind("\"bytes\": ", manifest.find("test-00000")) + 9, end = manifest.find(',', at);
    write_file(set + "/manifest.json", manifest.replace(at, end - at, bytes(set + name)));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {name.substr(1), "format"}, [&] { SplitReader(set, "train"); }));
}

}  // namespace
}  // namespace convoy::test
