// convoy classify, started as users start it: it agrees with evaluate, and with logits that numpy
// computes from the weights in the model file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/durable.h"
#include "cli/commands.h"
#include "tests/support/cluster.h"
#include "tests/support/file_calls.h"
#include "tests/support/images.h"
#include "tests/support/test_comm.h"
#include "tests/unit/metrics_folder.h"
#include "train/model_file.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Classify : public testing::Test {
protected:
    /// Trains three models for an epoch: of pictures that are cut to 16x16 pixels, of pictures that
    /// are resized to a short side of 20 first, and a linear one of grey images of 28x28.
    static void SetUpTestSuite() {
        folder_ = new TempDir;
        make_image_folder(at("photos"), 3, 20);
        for (const auto& [name, convert, train] :
             {std::tuple("cut", "--size 16x16", ""),
              std::tuple("resized", "--short-side 20", "--resize 20 --image-size 16")}) {
            ASSERT_EQ("", failure(convoy_alone(std::string("convert imagefolder --from ") + at("photos") +
                                               " --val-share 0.3 " + convert + " --to " + at(name))));
            ASSERT_EQ("", failure(convoy_alone(std::string("train --device cpu --threads 2 --model resnet18 ") + train +
                                               " --data " + at(name) + " --output " + at(name) + "-run")));
        }
        make_data(at("grey"), 64, 16, "28x28x1");
        ASSERT_EQ("", failure(convoy_alone("train --device cpu --model mnist-linear --data " + at("grey") +
                                           " --output " + at("grey-run"))));
    }
    static void TearDownTestSuite() { delete folder_; }
    static std::string at(const std::string& name) { return folder_->path(name); }

    static Finished classify(const std::string& model, const std::string& what) {
        return convoy_alone("classify --device cpu --threads 2 --model-file " + at(model) + "-run " + what);
    }
    static nlohmann::json as_json(const Finished& f) {
        EXPECT_EQ("", failure(f));
        return nlohmann::json::parse(f.out).at("images");
    }

    using Probabilities = std::vector<std::vector<double>>;  ///< [images, classes]
    static Probabilities probabilities(const Finished& f) {
        Probabilities all;
        for (const auto& image : as_json(f)) {
            all.emplace_back(3);
            for (const auto& c : image.at("classes")) all.back()[c.at("index")] = c.at("probability");
        }
        return all;
    }
    static double difference(const std::vector<double>& a, const std::vector<double>& b) {
        double most = 0;
        for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
        return most;
    }
    /// Sums depend on the size of a batch. Images differ by more than a hundred times this.
    static constexpr double rounding = 1e-5;

    static TempDir* folder_;
    TempDir out_;
};
TempDir* Classify::folder_ = nullptr;

TEST_F(Classify, CountsTheSameImagesAsRightAsEvaluate) {
    for (const char* model : {"cut", "resized"}) {
        const nlohmann::json images = as_json(classify(model, "--format json --top 1 --data " + at(model)));
        int right = 0;
        for (const auto& image : images) right += image.at("label") == image.at("classes").at(0).at("name");
        const Finished evaluated =
            convoy_alone("evaluate --device cpu --model-file " + at(model) + "-run --data " + at(model));
        EXPECT_NE(evaluated.out.find("(" + std::to_string(right) + " of " + std::to_string(images.size()) + ")"),
                  std::string::npos)
            << right << evaluated.out;
    }
}

TEST_F(Classify, ComputesInBf16OnRequest) {
    const std::string what = "--format json " + at("photos") + "/n00000001";
    const Finished low = classify("cut", what + " --precision bf16");
    if (low.err.find("AVX-512") != std::string::npos) GTEST_SKIP() << low.err;
    const Probabilities exact = probabilities(classify("cut", what)), rounded = probabilities(low);
    ASSERT_EQ(rounded.size(), exact.size());
    double most = 0;
    for (size_t i = 0; i < exact.size(); ++i) most = std::max(most, difference(exact[i], rounded[i]));
    EXPECT_GT(most, rounding) << "bf16 rounds";
    EXPECT_LT(most, 0.02) << "bf16 has 8 bits of a number";
    const nlohmann::json images =
        as_json(classify("cut", "--precision bf16 --format json --top 1 --data " + at("cut")));
    int right = 0;
    for (const auto& image : images) right += image.at("label") == image.at("classes").at(0).at("name");
    const Finished evaluated = convoy_alone("evaluate --device cpu --precision bf16 --format json --model-file " +
                                            at("cut") + "-run --data " + at("cut"));
    ASSERT_EQ("", failure(evaluated));
    EXPECT_EQ(nlohmann::json::parse(evaluated.out).at("correct"), right);
}

// The order of rows in a data set is not that of the files.
TEST_F(Classify, SeesInFilesWhatItSeesInTheDataSetMadeOfThem) {
    for (const char* model : {"cut", "resized"}) {
        const Probabilities in_files = probabilities(classify(model, "--format json " + at("photos")));
        Probabilities in_data;
        for (const char* split : {"train", "test"})
            for (const auto& row :
                 probabilities(classify(model, std::string("--format json --split ") + split + " --data " + at(model))))
                in_data.push_back(row);
        ASSERT_EQ(in_files.size(), 60u);
        ASSERT_EQ(in_data.size(), 60u);
        for (const auto& row : in_files) {
            double nearest = 1;
            for (const auto& other : in_data) nearest = std::min(nearest, difference(row, other));
            EXPECT_LT(nearest, rounding) << model;
        }
    }
}

TEST_F(Classify, LogitsAreThoseOfTheWeightsInTheFile) {
    const std::string python = python_with("h5py, PIL, numpy");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py and Pillow";
    write_file(out_.path("check.py"), R"(import h5py, numpy, sys
from PIL import Image
model, file, picture = h5py.File(sys.argv[1]), h5py.File(sys.argv[2]), Image.open(sys.argv[3]).convert("L")
tensors = model["tensors"]
weight, bias = ([t[...] for n, t in tensors.items() if n.endswith(end)][0] for end in (".weight", ".bias"))
x = (numpy.asarray(picture) / 255 - model.attrs["mean"]) / model.attrs["stddev"]
wanted = weight.reshape(10, -1).astype("f8") @ x.reshape(-1) + bias.reshape(-1)
assert numpy.allclose(wanted, file["logits"][0], rtol=1e-5, atol=1e-5), (wanted, file["logits"][0])
assert file["prediction"][0] == wanted.argmax() and file["label"][0] == -1
assert file["image"][0].decode() == sys.argv[3], file["image"][0]
assert list(file.attrs["class_names"]) == [n.decode() for n in model.attrs["class_names"]]
print("ok")
)");
    const std::string picture = out_.path("exact.png");
    ASSERT_EQ(run(python +
                  " -c \"from PIL import Image; import random; im = Image.new('RGB', (28, 28)); "
                  "im.putdata([tuple(random.randrange(256) for c in range(3)) for i in range(784)]); im.save('" +
                  picture + "')\"")
                  .code,
              0);
    ASSERT_EQ("", failure(classify("grey", picture + " --to " + out_.path("p.h5"))));
    const Finished f = run(python + " " + out_.path("check.py") + " " + at("grey-run/model-best.h5") + " " +
                           out_.path("p.h5") + " " + picture);
    EXPECT_EQ(f.out, "ok\n") << f.err;
    EXPECT_EQ("", refusal(classify("grey", picture + " --to " + out_.path("p.h5")), Exit::usage, {"--overwrite"}));
}

TEST_F(Classify, FoldersArchivesAndListsAreTheSameOnAnyRanks) {
    const std::string photos = at("photos"), tar = out_.path("photos.tar"), list = out_.path("list.txt");
    ASSERT_EQ(run("cd " + photos + " && find . -type f | LC_ALL=C sort >" + list + " && tar cf " + tar + " -T " + list +
                  " && sed -i 's,^\\.," + photos + ",' " + list)
                  .code,
              0);
    const Probabilities folder = probabilities(classify("cut", "--format json " + photos));
    const std::string model = "--model-file " + at("cut-run") + " --format json " + photos;
    for (const Finished& f : {classify("cut", "--format json " + tar), classify("cut", "--format json " + list),
                              launch(3, "classify --device cpu --threads 1 --batch-per-rank 7 " + model)}) {
        const Probabilities others = probabilities(f);
        ASSERT_EQ(others.size(), folder.size());
        for (size_t i = 0; i < folder.size(); ++i) EXPECT_LT(difference(folder[i], others[i]), rounding) << i;
    }
}

TEST_F(Classify, DamagedPicturesHaveARowAndTheOthersGoOn) {
    const std::string good = at("photos") + "/n00000001", bad = out_.path("bad.jpg");
    write_file(bad, "no picture");
    const std::string list = out_.path("list.txt");
    write_file(list, "bad.jpg\nmissing.png\n");
    const Finished f = classify("cut", bad + " " + good + " " + list + " --format json");
    const nlohmann::json images = as_json(f);
    ASSERT_EQ(images.size(), 23u);
    for (const size_t i : {0u, 21u, 22u}) EXPECT_TRUE(images[i].contains("fault")) << images[i];
    EXPECT_NE(images[22].at("fault").get<std::string>().find("No such file"), std::string::npos);
    for (size_t i = 1; i < 21; ++i) EXPECT_EQ(images[i].at("classes").size(), 3u) << images[i];
    EXPECT_EQ(as_json(classify("cut", "--image " + good + " --image " + bad + " --format json")).size(), 21u);
    EXPECT_NE(f.err.find("warning: 3 of 23 pictures could not be classified"), std::string::npos) << f.err;
    EXPECT_EQ("", refusal(classify("cut", bad), Exit::bad_input, {"none of the pictures"}));
}

TEST_F(Classify, NamesOfFilesControlNoTerminalAndNoOtherRow) {
    const std::string photo = at("photos") + "/n00000000", odd = out_.path("odd");
    fs::create_directory(odd);
    for (const auto& [entry, name] : {std::pair(0, std::string("\x1b[2J\xc2\x9b.jpg")), {1, " =1+1.jpg"}}) {
        auto file = fs::directory_iterator(photo);
        std::advance(file, entry);
        fs::copy_file(file->path(), odd + "/" + name);
    }
    const std::string csv = classify("cut", odd + " --format csv").out,
                      json = classify("cut", odd + " --format json").out;
    for (const std::string& text : {csv, json})
        for (const char* bytes : {"\x1b", "\xc2\x9b"}) EXPECT_EQ(text.find(bytes), std::string::npos) << text;
    EXPECT_EQ(nlohmann::json::parse(json).at("images").at(0).at("image"), odd + "/\x1b[2J\xc2\x9b.jpg");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

// A model file of other people may hold anything.
TEST_F(Classify, AModelWithoutAShortNameForEachClassIsRefused) {
    const std::string python = python_with("h5py, numpy"), model = out_.path("m.h5");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py and numpy";
    for (const auto& [names, problem] : {std::pair{"['one']", "class names and 10 classes"},
                                         {"['x'] * 5000", "class names and 10 classes"},
                                         {"['x'] * 9 + ['y' * 1001]", "has a name of 1001 bytes"}}) {
        fs::copy_file(at("grey-run/model.h5"), model, fs::copy_options::overwrite_existing);
        ASSERT_EQ(run(python + " -c \"import h5py, numpy; f = h5py.File('" + model +
                      "', 'r+', libver='v110'); f.attrs['class_names'] = numpy.array(" + names + ", dtype='S')\"")
                      .code,
                  0);
        const std::string picture = at("photos") + "/n00000000";
        for (const std::string& command :
             {"classify --model-file " + model + " " + picture + " --to " + out_.path("p.h5"), "info " + model,
              "export --model-file " + model + " --to " + out_.path("e.safetensors")})
            EXPECT_EQ("", refusal(convoy_alone(command), Exit::bad_input, {model, problem})) << command;
    }
}

// A user who may rename beside the folder may put another folder at its path meanwhile.
TEST_F(Classify, PredictionsGoIntoTheFolderOfTheStart) {
    const std::string to = out_.path("predictions"), was = out_.path("was"), other = out_.path("other");
    for (const std::string& folder : {to, other}) write_file(folder + "/p.h5", "earlier");
    const AfterRead exchange([&] {  // of the model
        fs::rename(to, was);
        fs::rename(other, to);
    });
    EXPECT_EQ(convoy::classify(test_comm(), {"--model-file", at("grey-run"), "--data", at("grey"), "--device", "cpu",
                                             "--threads", "1", "--to", to + "/p.h5", "--overwrite"}),
              0);
    EXPECT_EQ(read_file(to + "/p.h5"), "earlier");
    EXPECT_NE(read_file(was + "/p.h5"), "earlier");
}

// Finite weights of other people may give sums that are not.
TEST_F(Classify, OutputsThatAreNotFiniteAreRefused) {
    const ModelFile m = OpenModel(at("grey-run/model.h5")).file();
    const Graph graph = build_model(m.model);
    std::vector<std::vector<float>> values;
    for (const Param& p : graph.params) values.emplace_back(p.shape.count(), 3e38f);
    replace_file(out_.path("m.h5"), model_image(m, graph, values));
    const std::string which = " --device cpu --model-file " + out_.path("m.h5") + " --data " + at("grey");
    for (const char* format : {"text", "csv", "json"}) {
        const Finished f = convoy_alone("classify" + which + " --format " + format);
        EXPECT_EQ("", refusal(f, Exit::bad_input, {"none of the pictures could be classified"}));
        EXPECT_EQ(count(f.out, "the model's output is not finite"), 16) << f.out;
    }
    EXPECT_EQ("", refusal(convoy_alone("evaluate" + which), Exit::bad_input, {out_.path("m.h5"), "not finite"}));
}

TEST_F(Classify, OneLongNameTakesNoRoomInEachRow) {
    const std::string list = out_.path("list.txt");
    std::string lines = std::string(3000, 'a') + "\n";
    for (int i = 0; i < 2000; ++i) lines += std::to_string(i) + "\n";
    write_file(list, lines);
    fs::copy_file(fs::directory_iterator(at("photos") + "/n00000000")->path(), out_.path("0"));
    ASSERT_EQ("", failure(classify("cut", list + " --to " + out_.path("p.h5"))));
    EXPECT_LT(fs::file_size(out_.path("p.h5")), 2001u * 3000) << "2,001 rows of the longest name";
}

// A picture of 12 KB takes 300 MB. Eight at a time do not fit, and three do.
TEST_F(Classify, ThreadsShareTheMemoryOfLargePictures) {
    write_file(out_.path("png.py"), R"(import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
side = 10000
rows = zlib.compress(bytes(side * (1 + side // 8)), 9)
png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
for i in range(8):
    open(f"{sys.argv[1]}/{i}.png", "wb").write(png + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
)");
    ASSERT_EQ(run("/usr/bin/python3 " + out_.path("png.py") + " " + out_.path()).code, 0);
    const Finished f =
        run("ulimit -v 1800000; " + with_limit(sibling("convoy") + " classify --device cpu --threads 8 --format json " +
                                                   "--model-file " + at("grey-run") + " " + out_.path(),
                                               60));
    const nlohmann::json images = as_json(f);
    ASSERT_EQ(images.size(), 8U);
    for (const auto& image : images) EXPECT_FALSE(image.contains("fault")) << image;
}

TEST_F(Classify, WrongUseIsOneLine) {
    EXPECT_EQ("", refusal(classify("cut", ""), Exit::usage, {"which pictures"}));
    EXPECT_EQ("", refusal(classify("cut", "x.png --data " + at("cut")), Exit::usage, {"leave one of them out"}));
    EXPECT_EQ("", refusal(classify("cut", out_.path("missing.png")), Exit::bad_input, {"missing.png", "No such file"}));
    EXPECT_EQ("", refusal(classify("cut", out_.path()), Exit::bad_input, {"no file with the name of a picture"}));
    write_file(out_.path("empty.txt"), "\n");
    EXPECT_EQ("", refusal(classify("cut", out_.path("empty.txt")), Exit::bad_input, {"empty.txt: is empty"}));
    for (const auto& [name, words] : {std::pair("w.safetensors", "convoy import"), {"w.onnx", "exported from"}}) {
        write_file(out_.path(name), "not HDF5");
        for (const char* command : {"info ", "export --to e.onnx --model-file ", "classify x.png --model-file "})
            EXPECT_EQ("", refusal(convoy_alone(command + out_.path(name)), Exit::bad_input, {name, words})) << command;
    }
    EXPECT_EQ("", refusal(classify("cut", "x.png --format xml"), Exit::usage, {"text, csv or json"}));
    EXPECT_EQ("", refusal(classify("cut", "x.png --to p.csv"), Exit::usage, {"p.csv", "NAME.h5"}));
    // Found before the picture is, which is not there.
    write_file(out_.path("file"), "");
    EXPECT_EQ("", refusal(classify("cut", "x.png --to " + out_.path("file/p.h5")), Exit::io, {"file/p.h5", "written"}));
    EXPECT_EQ("",
              refusal(classify("cut", "--split val --data " + at("cut")), Exit::usage, {"--split", "test or train"}));
    EXPECT_EQ("", refusal(convoy_alone("predict a/picture.JPG"), Exit::usage, {"convoy classify --model-file FILE"}));
    EXPECT_EQ("", refusal(convoy_alone("convert " + at("photos")), Exit::usage, {"convert imagefolder --from"}));
    fs::create_directory(out_.path("above"));
    fs::create_directory_symlink(at("photos"), out_.path("above/photos"));
    const Finished one = convoy_alone("convert imagefolder --from " + out_.path("above") + " --to " + out_.path("one"));
    EXPECT_NE(one.err.find("warning: all images are of one class, 'photos'"), std::string::npos) << one.err;
    fs::create_directory(out_.path("empty"));
    EXPECT_EQ("", refusal(convoy_alone("classify --model-file " + out_.path("empty") + " x.png"), Exit::bad_input,
                          {"empty"}));
}

}  // namespace
}  // namespace convoy::test
