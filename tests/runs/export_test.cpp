// convoy export: names, shapes and values in the file, read by its specification in Python.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/cluster.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

/// Reads a safetensors file as its specification describes it, and a model file with h5py.
constexpr const char* readers = R"(
import json, re, struct, sys
import h5py
import numpy as np

def safetensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header, values = json.loads(data[8:8 + length]), data[8 + length:]
    assert (8 + length) % 8 == 0
    metadata, tensors, end = header.pop("__metadata__"), {}, 0
    for name, t in header.items():
        begin, stop = t["data_offsets"]
        assert begin == end, "no hole and no overlap"
        end = stop
        raw = values[begin:stop]
        if t["dtype"] == "BF16":
            array = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            array = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2", "I64": "<i8"}[t["dtype"]])
        tensors[name] = array.reshape(t["shape"])
    assert end == len(values)
    return metadata, tensors

def model(path):
    with h5py.File(path) as f:
        return {name: f["tensors"][name][()] for name in f["tensors"]}
)";

class Export : public testing::Test {
protected:
    void SetUp() override {
        if (run("${PYTHON:-/usr/bin/python3} -c 'import h5py, numpy'").code != 0) GTEST_SKIP() << "no h5py here";
    }
    /// The shipped MNIST images as shards.
    std::string mnist() {
        const std::string data = dir_.path("mnist");
        if (!std::filesystem::exists(data)) {
            EXPECT_EQ("", failure(convoy_alone("convert mnist --from input/mnist-sample --to " + data)));
        }
        return data;
    }
    /// Trains `model` for two steps on a data set; returns its model file.
    std::string trained(const std::string& model, const std::string& data) {
        const std::string out = dir_.path(model);
        const Finished f = convoy_alone("train --model " + model + " --data " + data +
                                        " --lr 0.01 --max-steps 2 --batch-size 8 --eval-images 8 --output " + out);
        EXPECT_EQ("", failure(f));
        return out + "/model.h5";
    }
    std::string exported(const std::string& file, const std::string& options = "") {
        const std::string to = dir_.path("exported" + std::to_string(++files_) + ".safetensors");
        const Finished f = convoy_alone("export --model-file " + file + " --to " + to + " " + options);
        EXPECT_EQ("", failure(f));
        return to;
    }
    /// Runs `script` after the readers; returns what it prints.
    std::string python(const std::string& script, const std::string& arguments) {
        write_file(dir_.path("script.py"), readers + script);
        const Finished f = run("${PYTHON:-/usr/bin/python3} " + dir_.path("script.py") + " " + arguments);
        return f.code == 0 ? f.out : f.err;
    }

    TempDir dir_;
    int files_ = 0;
};

// The names that torchvision's resnet18 has, by the structure that its source has.
TEST_F(Export, AResnetHasTorchvisionsNamesShapesAndValues) {
    const std::string file = trained("resnet18", "input/cifar10-sample");
    EXPECT_EQ(python(R"(
_, ours = safetensors(sys.argv[1])
theirs, conv, norm = {}, lambda n, o, i, k: theirs.update({n + ".weight": (o, i, k, k)}), None
def norm(name, c):
    theirs.update({f"{name}.{part}": (c,) for part in ("weight", "bias", "running_mean", "running_var")})
    theirs[f"{name}.num_batches_tracked"] = ()
conv("conv1", 64, 3, 3), norm("bn1", 64)
before = 64
for layer, width in enumerate((64, 128, 256, 512), 1):
    for block in (0, 1):
        name = f"layer{layer}.{block}"
        conv(name + ".conv1", width, before, 3), norm(name + ".bn1", width)
        conv(name + ".conv2", width, width, 3), norm(name + ".bn2", width)
        if before != width:
            conv(name + ".downsample.0", width, before, 1), norm(name + ".downsample.1", width)
        before = width
theirs.update({"fc.weight": (10, 512), "fc.bias": (10,)})
assert {name: t.shape for name, t in ours.items()} == theirs
m = model(sys.argv[2])
for a, b in (("conv1.weight", "stem.conv.weight"),
             ("layer2.0.downsample.0.weight", "stage2.block0.down.conv.weight"),
             ("layer4.1.conv2.weight", "stage4.block1.conv2.weight")):
    assert np.array_equal(ours[a], m[b].transpose(0, 3, 1, 2)), a
for a, b in (("bn1.running_var", "stem.bn.var"), ("bn1.weight", "stem.bn.scale"),
             ("layer3.1.bn2.bias", "stage3.block1.bn2.bias"),
             ("layer1.0.bn1.running_mean", "stage1.block0.bn1.mean"), ("fc.bias", "fc.bias"),
             ("fc.weight", "fc.weight")):
    assert np.array_equal(ours[a].ravel(), m[b].ravel()), a
print("same")
)",
                     exported(file) + " " + file),
              "same\n");
}

// The forward pass of PyTorch's MNIST example in NumPy, with nothing but the exported file, has the
// loss that `convoy evaluate` prints.
TEST_F(Export, MnistConvComputesTheSameElsewhere) {
    const std::string file = trained("mnist-conv", mnist());
    const Finished f = convoy_alone("evaluate --model-file " + file + " --data " + mnist());
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(python(R"(
info, t = safetensors(sys.argv[1])
images, labels = [], []
import glob
for path in sorted(glob.glob(sys.argv[3] + "/test-*.h5")):
    with h5py.File(path) as shard:
        images.append(shard["images"][()]), labels.append(shard["labels"][()])
labels = np.concatenate(labels)
x = np.concatenate(images).astype(np.float64) / 255
x = ((x - json.loads(info["mean"])) / json.loads(info["stddev"])).transpose(0, 3, 1, 2)
def conv(x, name):
    w, b = t[name + ".weight"].astype(np.float64), t[name + ".bias"].astype(np.float64)
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nihwkl,oikl->nohw", patches, w, optimize=True) + b[:, None, None]
def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
def linear(x, name):
    return x @ t[name + ".weight"].astype(np.float64).T + t[name + ".bias"]
x = np.maximum(pool(conv(x, "conv1")), 0)
x = np.maximum(pool(conv(x, "conv2")), 0)
x = linear(np.maximum(linear(x.reshape(len(x), -1), "fc1"), 0), "fc2")
loss = (np.log(np.exp(x).sum(1)) - x[np.arange(len(x)), labels]).mean()
evaluated = re.search(r"loss ([0-9.]+), accuracy [0-9.]+ % \((\d+) of", sys.argv[2])
assert abs(loss - float(evaluated[1])) < 1e-4, (loss, evaluated[1])
assert (x.argmax(1) == labels).sum() == int(evaluated[2])
print("same")
)",
                     exported(file) + " '" + f.out + "' " + mnist()),
              "same\n");
}

TEST_F(Export, TheOtherModelsHaveTheirAuthorsNames) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"airbench94", "0.weight 2.conv1.weight 2.norm2.running_var 4.conv2.weight 7.weight"},
        {"airbench94-muon", "whiten.bias layers.1.conv1.weight layers.3.norm1.bias head.weight"},
        {"pyramidnet",
         "conv1.weight bn1.running_mean layer1.0.bn3.weight layer3.16.conv2.weight bn_final.bias fc.bias"}};
    for (const auto& [model, names] : cases) {
        const std::string file = exported(trained(model, "input/cifar10-sample"));
        EXPECT_EQ(
            python("_, t = safetensors(sys.argv[1])\n"
                   "print([n for n in sys.argv[2:] if n not in t], [n for n in t if 'stage' in n or 'group' in n])",
                   file + " " + names),
            "[] []\n")
            << model;
    }
}

TEST_F(Export, HalfPrecisionIsRoundedAndCheckpointsAreModels) {
    const std::string file = trained("mnist-conv", mnist()), run = std::filesystem::path(file).parent_path();
    const std::string whole = exported(file), f16 = exported(file, "--dtype f16"),
                      bf16 = exported(file, "--dtype bf16");
    EXPECT_EQ(python(R"(
whole, f16, bf16 = (safetensors(p)[1] for p in sys.argv[1:4])
for n, t in whole.items():
    assert np.array_equal(f16[n], t.astype("<f2")), n
    assert np.abs(bf16[n] / np.where(t == 0, 1, t) - (t != 0)).max() <= 2**-8, n
print("same")
)",
                     whole + " " + f16 + " " + bf16),
              "same\n");
    const std::string checkpoint = checkpoints_of(run).front();
    EXPECT_EQ(read_file(exported(checkpoint)).substr(1 << 12), read_file(whole).substr(1 << 12));
    EXPECT_EQ(read_file(exported(run)), read_file(exported(run + "/model-best.h5"))) << "the best model of a run";
}

TEST_F(Export, MistakesAreOneLine) {
    const std::string file = trained("mnist-linear", mnist()), to = dir_.path("x.safetensors");
    const std::string start = "export --model-file " + file + " --to ";
    EXPECT_EQ("", refusal(convoy_alone(start + dir_.path("x.pth")), Exit::usage, {"x.pth", "NAME.safetensors"}));
    EXPECT_EQ("", refusal(convoy_alone(start + to + " --raw-pixels"), Exit::usage, {"--raw-pixels", "NAME.onnx"}));
    EXPECT_EQ("", refusal(convoy_alone(start + to + " --dtype f8"), Exit::usage, {"f32, f16 or bf16"}));
    EXPECT_EQ("", refusal(convoy_alone("export --to " + to), Exit::usage, {"--model-file"}));
    EXPECT_EQ("", refusal(convoy_alone("export --model-file README.md --to " + to), Exit::bad_input, {"README.md"}));
    EXPECT_FALSE(std::filesystem::exists(to));
    write_file(to, "mine");
    EXPECT_EQ("", refusal(convoy_alone(start + to), Exit::usage, {"is there already", "--overwrite"}));
    EXPECT_EQ(read_file(to), "mine");
    EXPECT_EQ("", failure(convoy_alone(start + to + " --overwrite")));
    EXPECT_NE(read_file(to), "mine");
}

}  // namespace
}  // namespace convoy::test
