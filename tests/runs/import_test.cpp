// convoy import: weights that PyTorch wrote give the logits that PyTorch computes, exported models
// come back as they were, and what does not fit is listed.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/durable.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "tests/support/cluster.h"
#include "train/model_file.h"

namespace convoy::test {
namespace {

class Import : public testing::Test {
protected:
    /// The shipped MNIST images as shards.
    std::string mnist() {
        const std::string data = dir_.path("mnist");
        if (!std::filesystem::exists(data)) {
            EXPECT_EQ("", failure(convoy_alone("convert mnist --from input/mnist-sample --to " + data)));
        }
        return data;
    }
    std::string weights(const std::string& name) { return "tests/golden/weights/" + name; }
    /// Imports a file; returns the model file.
    std::string imported(const std::string& from, const std::string& options = "") {
        const std::string to = dir_.path("imported" + std::to_string(++files_) + ".h5");
        const Finished f = convoy_alone("import --from " + from + " --to " + to + " " + options);
        EXPECT_EQ("", failure(f));
        said_ = f.out;
        return to;
    }
    std::string exported(const std::string& model, const std::string& dtype = "f32") {
        const std::string to = dir_.path("exported" + std::to_string(++files_) + ".safetensors");
        EXPECT_EQ("", failure(convoy_alone("export --model-file " + model + " --to " + to + " --dtype " + dtype)));
        return to;
    }
    /// Writes a model with other values in each element, and returns its path.
    std::string made(const ModelFile& m) {
        const Graph graph = build_model(m.model);
        std::vector<std::vector<float>> values;
        uint32_t state = 1;
        for (const Param& p : graph.params)
            for (float& v : values.emplace_back(p.shape.count()))
                v = float(state = state * 1664525 + 1013904223) * 0x1p-33f;
        const std::string file = dir_.path(m.model.name + ".h5");
        replace_file(file, model_image(m, graph, values));
        return file;
    }

    TempDir dir_;
    std::string said_;  ///< by the last import
    int files_ = 0;
};

// f16 weights in safetensors, and a checkpoint of DataParallel in a .pth file.
TEST_F(Import, WeightsOfPyTorchHaveItsLogits) {
    if (run("${PYTHON:-/usr/bin/python3} -c 'import h5py, numpy'").code != 0) GTEST_SKIP() << "no h5py here";
    for (const auto& [model, file] : {std::pair<std::string, std::string>{"mnist-conv", "mnist-conv.safetensors"},
                                      {"mnist-linear", "mnist-linear.pth"}}) {
        const std::string to =
                              imported(weights(file), "--model " + model + " --data " + mnist() + " --normalize mnist"),
                          logits = dir_.path(model + "-logits.h5");
        EXPECT_EQ("", failure(convoy_alone("classify --model-file " + to + " --data " + mnist() + " --to " + logits)));
        write_file(dir_.path("compare.py"), R"(
import csv, sys, h5py, numpy as np
with open(sys.argv[1]) as file:
    rows = [[float(v) for v in r[2:]] for r in csv.reader(file) if r[0] == sys.argv[3]]
with h5py.File(sys.argv[2]) as file:
    ours = file["logits"][:len(rows)]
print(len(rows), "same" if np.abs(ours - rows).max() < 1e-4 else np.abs(ours - rows).max())
)");
        EXPECT_EQ(run("${PYTHON:-/usr/bin/python3} " + dir_.path("compare.py") + " " + weights("logits.csv") + " " +
                      logits + " " + model)
                      .out,
                  "8 same\n")
            << model;
    }
}

/// Returns type, shape and values of each tensor by its name, without DataParallel's prefix.
auto tensors_of(const std::string& path) {
    std::map<std::string, std::tuple<std::string, std::vector<int64_t>, std::vector<float>>> all;
    const InputBytes file(path);
    for (const StoredTensor& t : stored_tensors(file).tensors)
        all[t.name.starts_with("module.") ? t.name.substr(7) : t.name] = {t.type, t.shape, stored_values(file, t)};
    return all;
}

TEST_F(Import, WeightsOfPyTorchComeBackAsTheyWere) {
    const std::string conv = weights("mnist-conv.safetensors"), linear = weights("mnist-linear.pth");
    EXPECT_EQ(tensors_of(exported(imported(conv, "--model mnist-conv"), "f16")), tensors_of(conv));
    EXPECT_EQ(tensors_of(exported(imported(linear, "--model mnist-linear"))), tensors_of(linear));
    EXPECT_EQ(tensors_of(conv).size(), 8U);
    EXPECT_EQ(tensors_of(linear).size(), 2U);
}

TEST_F(Import, ExportedModelsComeBackTheSame) {
    const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j \"quoted\" \xc3\xa4"};
    for (const char* model : {"mnist-conv", "resnet18", "airbench94-muon"}) {
        const ModelOptions options = usual_images(model);
        const size_t channels = size_t(options.c);
        const std::string file = made({options,
                                       {std::vector<float>(channels, 0.1f), std::vector<float>(channels, 0.3f), 40},
                                       names}),
                          first = exported(file), back = imported(first);
        EXPECT_EQ(read_file(exported(back)), read_file(first)) << model;
        EXPECT_EQ(tensors(back), tensors(file)) << model;
    }
    const std::string vectors =
        made({usual_images("linear"), {std::vector<float>(10), std::vector<float>(10, 1)}, names, DType::f32});
    EXPECT_EQ(int(OpenModel(imported(exported(vectors))).file().data), int(DType::f32));
}

TEST_F(Import, TheModelIsEvaluatedAsBefore) {
    const std::string run = dir_.path("run"), data = mnist(), file = run + "/model.h5";
    ASSERT_EQ("",
              failure(convoy_alone("train --model mnist-conv --lr 0.01 --max-steps 2 --batch-size 8 --eval-images 8 "
                                   "--data " +
                                   data + " --output " + run)));
    const auto score = [&](const std::string& of) {
        return score_of(convoy_alone("evaluate --model-file " + of + " --data " + data).out);
    };
    const Score before = score(file), after = score(imported(exported(file)));
    EXPECT_GT(before.images, 0);
    EXPECT_EQ(before.loss, after.loss);
    EXPECT_EQ(before.correct, after.correct);
}

TEST_F(Import, FactsAreFromOptionsOrDataOrDefaultsAndPrinted) {
    const std::string conv = weights("mnist-conv.safetensors") + " --model mnist-conv";
    imported(conv);
    for (const char* words : {"images 28x28x1,", "mean 0.1307, stddev 0.3081", "10 classes from 'class 0'"})
        EXPECT_NE(said_.find(words), std::string::npos) << said_;
    imported(conv, "--mean 0.5 --stddev 0.25");
    EXPECT_NE(said_.find("mean 0.5, stddev 0.25"), std::string::npos) << said_;
    imported(conv, "--normalize none");
    EXPECT_NE(said_.find("mean 0, stddev 1"), std::string::npos) << said_;
    const std::string vectors = imported(weights("linear.pth"), "--model linear");
    EXPECT_NE(said_.find("images 1x1x10, mean 0,0,"), std::string::npos) << said_;
    EXPECT_EQ(int(OpenModel(vectors).file().data), int(DType::f32));
    std::string names;
    for (int i = 0; i < 10; ++i) names += "digit " + std::to_string(i) + "\n";
    write_file(dir_.path("names.txt"), names);
    imported(conv, "--class-names " + dir_.path("names.txt"));
    EXPECT_NE(said_.find("'digit 0'"), std::string::npos) << said_;
    imported(conv, "--data " + mnist());
    EXPECT_NE(said_.find("10 classes from '0'"), std::string::npos) << said_;
    EXPECT_EQ(said_.find("mean 0.1307"), std::string::npos) << "the sample's own mean: " << said_;
}

TEST_F(Import, WhatDoesNotFitIsListedAfterOneLine) {
    const std::string to = dir_.path("x.h5");
    const Finished f = convoy_alone("import --model mnist-conv --to " + to + " --from " + weights("linear.pth"));
    EXPECT_EQ(f.code, int(Exit::bad_input));
    EXPECT_EQ(f.out, "");
    EXPECT_EQ(count(f.err, "\n"), 1 + 8 + 2) << f.err;
    EXPECT_TRUE(
        f.err.starts_with("convoy: tests/golden/weights/linear.pth: does not fit model mnist-conv with 10 classes: "
                          "8 missing, 0 misshapen, 2 unexpected"))
        << f.err;
    EXPECT_NE(f.err.find("\n  missing    conv1.weight model [10, 1, 5, 5]\n"), std::string::npos) << f.err;
    EXPECT_NE(f.err.find("\n  unexpected fc.bias file [10]\n"), std::string::npos) << f.err;
    const Finished classes =
        convoy_alone("import --model mnist-linear --classes 7 --to " + to + " --from " + weights("mnist-linear.pth"));
    EXPECT_EQ(classes.code, int(Exit::bad_input));
    EXPECT_NE(classes.err.find("misshapen  fc.weight model [7, 784], file [10, 784]"), std::string::npos)
        << classes.err;
    EXPECT_FALSE(std::filesystem::exists(to));
}

// A pickle repeats a text of any length in two bytes.
TEST_F(Import, LongKeysThatComeAgainAreListedAtOnce) {
    write_file(dir_.path("keys.py"), R"(import struct, sys, zipfile
key = b"X" + struct.pack("<I", 15 << 20) + b"k" * (15 << 20) + b"q\0"
zipfile.ZipFile(sys.argv[1], "w").writestr("a/data.pkl", b"\x80\2}(" + key + b"N" + b"h\0N" * 300_000 + b"u.")
)");
    const std::string file = dir_.path("keys.pth");
    ASSERT_EQ("", failure(run("${PYTHON:-/usr/bin/python3} " + dir_.path("keys.py") + " " + file)));
    const Finished f = convoy_alone("import --model linear --to " + dir_.path("x.h5") + " --from " + file, 30);
    EXPECT_EQ("", refusal(f, Exit::bad_input, {"name the key of one with --key: kkkk", "kkk…, kkk"}));
}

TEST_F(Import, APrefixIsDroppedFromANameOfMegabytesAtOnce) {
    std::string name;
    while (name.size() < 15'000'000) name += "module._orig_mod.";
    const std::string header = R"({")" + name + R"(x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += char(uint64_t(header.size()) >> (8 * i));
    const std::string file = dir_.path("long.safetensors");
    write_file(file, bytes + header + std::string(4, '\0'));
    const Finished f = convoy_alone("import --model linear --to " + dir_.path("x.h5") + " --from " + file, 30);
    EXPECT_EQ("", refusal(f, Exit::bad_input, {"long.safetensors"}));
}

TEST_F(Import, ALongNameOfAModelIsShortenedInTheMessage) {
    const std::vector<unsigned char> file = safetensors_file({{"fc.bias", "F32", {2}, std::vector<unsigned char>(8)}},
                                                             {{"model", std::string(1 << 20, 'm')}});
    write_file(dir_.path("model.safetensors"), {file.begin(), file.end()});
    const Finished f = convoy_alone("import --from " + dir_.path("model.safetensors") + " --to " + dir_.path("x.h5"));
    EXPECT_EQ("", refusal(f, Exit::usage, {"mmm…", "resnet50"}));
    EXPECT_LT(f.err.size(), 2000U);
}

// Otherwise an evaluation would compare classes in one order with classes in another.
TEST_F(Import, OtherNamesThanThoseOfTheDataSetAreRefused) {
    const std::string file = dir_.path("names.safetensors");
    const auto with = [&](const std::string& names, const std::string& more = "") {
        const std::vector<unsigned char> content =
            safetensors_file({{"fc.weight", "F32", {10, 784}, std::vector<unsigned char>(31360)},
                              {"fc.bias", "F32", {10}, std::vector<unsigned char>(40)}},
                             {{"model", "mnist-linear"}, {"class_names", names}});
        write_file(file, {content.begin(), content.end()});
        return convoy_alone("import --overwrite --from " + file + " --data " + mnist() + " --to " + dir_.path("x.h5") +
                            more);
    };
    const std::string same = R"(["0","1","2","3","4","5","6","7","8","9"])",
                      other = R"(["1","0","2","3","4","5","6","7","8","9"])";
    EXPECT_EQ("", failure(with(same)));
    EXPECT_EQ("", failure(with(R"(["class 0","class 1","class 2","class 3","class 4","class 5","class 6","class 7",)"
                               R"("class 8","class 9"])")))
        << "no names";
    EXPECT_EQ("", refusal(with(other), Exit::bad_input, {file, "class 0 as '1'", "has '0'", "--class-names"}));
    write_file(dir_.path("names.txt"), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    EXPECT_EQ("", failure(with(other, " --class-names " + dir_.path("names.txt"))));
}

TEST_F(Import, LongNamesOfClassesAreRefused) {
    const auto imported_with = [&](size_t bytes) {
        const std::vector<unsigned char> file =
            safetensors_file({{"fc.weight", "F32", {2, 10}, std::vector<unsigned char>(80)},
                              {"fc.bias", "F32", {2}, std::vector<unsigned char>(8)}},
                             {{"model", "linear"},
                              {"trained_on", "vectors"},
                              {"class_names", R"(["a",")" + std::string(bytes, 'n') + R"("])"}});
        write_file(dir_.path("names.safetensors"), {file.begin(), file.end()});
        return convoy_alone("import --overwrite --from " + dir_.path("names.safetensors") + " --to " +
                            dir_.path("x.h5"));
    };
    EXPECT_EQ("", failure(imported_with(1000)));
    EXPECT_EQ(OpenModel(dir_.path("x.h5")).file().class_names.back().size(), 1000U);
    EXPECT_EQ("", refusal(imported_with(1001), Exit::bad_input, {"class 'nnn", "1001 bytes", "--class-names"}));
}

TEST_F(Import, MistakesAreOneLine) {
    const std::string to = dir_.path("x.h5"), from = "import --from " + weights("mnist-linear.pth"),
                      whole = from + " --model mnist-linear --to " + to;
    const std::vector<std::tuple<std::string, Exit, std::vector<std::string>>> cases = {
        {from, Exit::usage, {"--to"}},
        {"import --from input/cifar10-sample/test-00000-of-00001.h5 --to " + to, Exit::bad_input, {"is an HDF5 file"}},
        {from + " --to x.pth", Exit::usage, {"NAME.h5"}},
        {from + " --to " + to, Exit::usage, {"mnist-linear.pth", "--model", "resnet50"}},
        {from + " --to " + to + " --model resnet5", Exit::usage, {"resnet50"}},
        {whole + " --normalize image-net", Exit::usage, {"--normalize", "imagenet"}},
        {whole + " --normalize imagenet", Exit::usage, {"1 finite numbers", "--mean"}},
        {whole + " --normalize mnist --mean 1 --stddev 1", Exit::usage, {"--normalize is instead"}},
        {whole + " --mean 1,2", Exit::usage, {"--mean"}},
        {whole + " --stddev 0", Exit::usage, {"--stddev"}},
        {whole + " --class-names README.md", Exit::bad_input, {"README.md: names", "mnist-linear.pth has 10"}},
        {whole + " --classes 7 --data " + mnist(), Exit::bad_input, {"names 10 classes", "--classes is 7"}},
        {whole + " --class-names nowhere", Exit::bad_input, {"nowhere"}},
        {whole + " --key nothing", Exit::bad_input, {"'nothing'"}},
        {whole + " --prefix net.", Exit::bad_input, {"'net.'"}},
        {whole + " --image-size 32", Exit::bad_input, {"28x28x1"}},
        {whole + " --image-size 8:0,9:1", Exit::usage, {"one side"}},
        {whole + " --resize 12", Exit::usage, {"--resize 12"}},
        {whole + " --data src", Exit::bad_input, {"src", "shards"}},
        {"import --model linear --to " + to + " --from README.md", Exit::bad_input, {"README.md", "safetensors"}},
        {"import --model linear --to " + to + " --from src", Exit::bad_input, {"src", "regular file"}}};
    for (const auto& [command, code, words] : cases)
        EXPECT_EQ("", refusal(convoy_alone(command), code, words)) << command;
    EXPECT_FALSE(std::filesystem::exists(to));
    write_file(to, "mine");
    EXPECT_EQ("", refusal(convoy_alone(whole), Exit::usage, {"is there already", "--overwrite"}));
    EXPECT_EQ(read_file(to), "mine");
    EXPECT_EQ("", failure(convoy_alone(whole + " --overwrite")));
}

}  // namespace
}  // namespace convoy::test
