// ONNX files of models with batch norms, against the logits that PyTorch computes in float64 with
// running statistics. tests/golden/make_inference.py writes these, and says what parameters are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/onnx_file.h"
#include "model/models.h"
#include "tests/support/cluster.h"
#include "tests/support/model_runner.h"

namespace convoy::test {
namespace {

constexpr Init zero = {Init::constant, 0};

/// All that models are made of: make_inference.py has the same.
Graph every_operation() {
    GraphBuilder b("every-operation", 16, 16, 3, 10);
    ValueId x = b.relu(b.batch_norm("bn1", b.conv("conv1", b.input(), 8, 3, 2, 1, zero)));
    ValueId y = b.batch_norm("bn2", b.conv("conv2", x, 12, 3, 2, 1, zero, true));
    x = b.gelu(b.batch_norm("bn3", b.add(b.pad_shortcut(x, 12, 2), y)));
    y = b.add(b.pad_shortcut(x, 16, 1), b.conv("conv3", x, 16, 1, 1, 0, zero));
    x = b.dropout(b.max_pool(b.batch_norm("bn4", y), 3, 2, 1), 0.5f);
    x = b.linear("fc2", b.relu(b.linear("fc1", x, 20)), 10, false);
    return b.finish(b.scale(x, 0.25f), 0);
}

Graph graph_of(const std::string& name) {
    if (name == "every-operation") return every_operation();
    ModelOptions o = usual_images(name);
    o.stem = "imagenet";
    return build_model(o);
}

std::vector<std::vector<float>> values_of(const Graph& graph) {
    std::vector<std::vector<float>> values;
    for (const Param& p : graph.params) {
        const bool scale = p.name.ends_with(".scale"), var = p.name.ends_with(".var");
        const bool conv = p.shape.h > 1 || p.group == ParamGroup::filter;
        const double fan_in = double(p.shape.h * p.shape.w * p.shape.c);
        float factor = p.name.ends_with(".bias") ? 0.125f : var ? 0.5f : 0.25f;
        if (p.is_weight) factor = float(conv ? std::sqrt(3 / fan_in) : 1 / std::sqrt(fan_in));
        for (float& v : values.emplace_back(stream(p.name, p.shape.count()))) v = v * factor + float(scale || var);
    }
    return values;
}

class ExportGolden : public testing::TestWithParam<std::string> {};

// f16 rounds the result of each of n operations to 11 bits, and bf16 each weight to 8. These errors
// are independent: they add up to sqrt(n) times as much. Twice that is allowed.
TEST_P(ExportGolden, EachTypeHasPyTorchsLogits) {
    if (run("${PYTHON:-/usr/bin/python3} -c 'import numpy'").code != 0) GTEST_SKIP() << "no NumPy here";
    const TempDir dir;
    const Graph graph = graph_of(GetParam());
    const Value& image = graph.values[graph.input];
    const Floats input = stream("input", 2 * image.batched(1).count());
    write_file(dir.path("input"), {reinterpret_cast<const char*>(input.data()), input.size() * sizeof(float)});
    write_file(dir.path("compare.py"), R"(
import csv, sys
from onnx_reader import *
name, size, path, *files = sys.argv[1:]
x = np.fromfile(path, "f4").reshape(2, int(size), int(size), 3).transpose(0, 3, 1, 2)
with open("tests/golden/inference.csv") as file:
    golden = np.array([[float(v) for v in r[2:]] for r in csv.reader(file) if r[0] == name])
for file, limit in zip(files, (1e-5, 2 * 2**-11, 2 * 2**-8)):
    n = len(load(file)[4]) if limit > 1e-5 else 1
    error = np.abs(compute(file, x) - golden).max() / np.abs(golden).max()
    print("same" if len(golden) == 2 and error < limit * n**0.5 else f"{file}: {error}, more than {limit * n**0.5}")
)");
    std::string command = "PYTHONPATH=tests/support ${PYTHON:-/usr/bin/python3} -B " + dir.path("compare.py") + " " +
                          GetParam() + " " + std::to_string(image.h) + " " + dir.path("input");
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
        const std::string file = dir.path(std::string(name_of(type)) + ".onnx");
        write_file(file, onnx_file(graph, values_of(graph), {.dtype = type}));
        command += " " + file;
    }
    const Finished f = run(command);
    EXPECT_EQ(f.out, "same\nsame\nsame\n") << f.err;
}

INSTANTIATE_TEST_SUITE_P(All, ExportGolden, testing::Values("every-operation", "resnet18", "airbench94"),
                         [](const auto& test) {
                             std::string name = test.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace convoy::test
