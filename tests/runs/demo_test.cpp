// convoy demo: the output of PyTorch's data-parallel demo, on 1 to 11 ranks, and that the gathered
// outputs are x W^T + b. Data sets of vectors: read by h5py, verified, trained, refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "data/shard.h"
#include "model/models.h"
#include "tests/ops/op_harness.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"
#include "train/forward_pass.h"

namespace convoy::test {
namespace {

const std::string recipe = "input/recipes/tests/dataparallel-demo.cfg";

/// Makes the demo's data: 100 vectors of 10 numbers.
void make_vectors(const std::string& dir) {
    ASSERT_EQ(
        "", failure(convoy_alone("convert synthetic --kind normal --images 100 --size 1x1x10 --shards 2 --to " + dir)));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// Returns the output of ten batches of which rank i has rows[i] rows each.
std::vector<std::string> expected(const std::vector<int>& rows) {
    std::vector<std::string> lines = {"runs on cpu"};
    for (int batch = 0; batch < 10; ++batch) {
        for (size_t rank = 0; rank < rows.size(); ++rank) {
            const std::string who = "rank " + std::to_string(rank) + ":", n = std::to_string(rows[rank]);
            lines.push_back(rows[rank] == 0
                                ? who + " no rows of this batch"
                                : who + "\tIn Model: input size [" + n + ", 10] output size [" + n + ", 10]");
        }
        lines.emplace_back("Outside: input size [10, 10] output_size [10, 10]");
    }
    return lines;
}

TEST(Demo, ShowsTheSliceOfEveryRank) {
    const TempDir dir;
    make_vectors(dir.path("set"));
    const std::string arguments = "demo --device cpu --threads 1 --config " + recipe + " --data " + dir.path("set");
    const std::vector<std::vector<int>> splits = {
        {10}, {5, 5}, {2, 2, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}};
    for (const std::vector<int>& rows : splits) {
        const Finished f = launch(int(rows.size()), arguments);
        ASSERT_EQ("", failure(f));
        EXPECT_EQ(lines_of(f.out), expected(rows)) << rows.size() << " ranks";
    }
}

TEST(Demo, WithoutARecipeIsTheSame) {
    const TempDir dir;
    make_vectors(dir.path("set"));
    const Finished f = launch(2, "demo --device cpu --data " + dir.path("set"));
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(lines_of(f.out), expected({5, 5}));
    const Finished few = launch(2, "demo --device cpu --batch-size 60 --max-steps 2 --data " + dir.path("set"));
    ASSERT_EQ("", failure(few));
    EXPECT_NE(few.out.find("rank 1:\tIn Model: input size [20, 10] output size [20, 10]\n"
                           "Outside: input size [40, 10] output_size [40, 10]\n"),
              std::string::npos)
        << "the last batch is smaller: " << few.out;
}

TEST(Demo, RefusesWhatItDoesNotTake) {
    const TempDir dir;
    make_vectors(dir.path("set"));
    EXPECT_EQ(
        "", refusal(convoy_alone("demo --data " + dir.path("set") + " --epochs 3"), Exit::usage, {"--epochs", "demo"}));
    EXPECT_EQ("", refusal(convoy_alone("demo"), Exit::usage, {"--data is missing"}));
    EXPECT_EQ("", refusal(launch(2, "demo --device cpu --data " + dir.path("none")), Exit::bad_input, {"none"}));
}

/// Returns x W^T + b in double precision, of rows [first, first + rows).
std::vector<double> products(const std::vector<float>& x, const Floats& weight, const Floats& bias, size_t first,
                             size_t rows) {
    std::vector<double> y;
    for (size_t row = first; row < first + rows; ++row)
        for (size_t out = 0; out < bias.size(); ++out) {
            double sum = double(bias[out]);
            for (size_t in = 0; in < 10; ++in) sum += double(x[row * 10 + in]) * double(weight[out * 10 + in]);
            y.push_back(sum);
        }
    return y;
}

class DemoForwardOn : public testing::TestWithParam<std::string> {};

TEST_P(DemoForwardOn, GathersTheProductsOfAllRanks) {
    if (test_comm().size() == 1) {
        EXPECT_EQ("", problem_on_ranks(2));
        EXPECT_EQ("", problem_on_ranks(3));
    }
    Comm& comm = test_comm();
    const TempDir own;
    const std::string dir = comm.broadcast(own.path("set"));
    if (comm.root()) write_data_set(make_normal({32, 4, 1, 1, 10, 10, 3}), dir, 2, false);
    comm.barrier();
    const BackendOptions how{.threads = 1, .share_device = true};
    const std::unique_ptr<Backend> backend = make_backend(GetParam(), how, comm);
    const SplitReader reader(dir, "train");
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    State state(graph, *backend, nullptr);
    state.initialise(graph, *backend, 5);
    const DataSet data(comm, *backend, reader);
    ForwardPass pass(comm, *backend, graph, state, data, {reader.info().mean, reader.info().stddev}, 10);

    std::vector<float> x(320);
    std::vector<int32_t> labels(32);
    reader.read(0, 32, reinterpret_cast<uint8_t*>(x.data()), labels.data());
    const Floats weight = get(*backend, state.params()[0]), bias = get(*backend, state.params()[1]);
    ASSERT_EQ(weight.size(), 100u);
    ASSERT_EQ(pass.batches(), 4);
    for (int64_t batch = 3; batch >= 0; --batch) {
        const ForwardPass::Result r = pass.run(batch);
        EXPECT_EQ(r.samples, batch < 3 ? 10 : 2);
        EXPECT_EQ(r.outputs.size(), comm.root() ? size_t(r.samples) * 10 : 0u);
        const std::vector<double> y = products(x, weight, bias, size_t(batch) * 10, size_t(r.samples));
        // Sums of 11 products of numbers below 4: float has an error of 6e-8 for each.
        for (size_t i = 0; i < r.outputs.size(); ++i)
            EXPECT_NEAR(double(r.outputs[i]), y[i], 1e-5) << batch << ": " << i;
    }
    comm.barrier();  // rank 0 removes the folder
}

INSTANTIATE_TEST_SUITE_P(All, DemoForwardOn, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
