// The search for the first value that is not finite, on ranks that see different values.
#include "train/not_finite.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/models.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

// Running statistics differ between ranks. If only some ranks went on to the collective search,
// they would wait for the others until the watchdog ends the job.
TEST(NotFinite, ValuesOfOneRankAreFoundOnAll) {
    Comm& comm = test_comm();
    if (comm.size() == 1) {
        EXPECT_EQ("", problem_on_ranks(3));
    }
    const std::unique_ptr<Backend> backend = make_cpu_backend({}, comm);
    ModelOptions model;
    model.name = "resnet18";
    model.h = model.w = 32;
    model.c = 3;
    model.classes = 4;
    const Graph graph = build_model(model);
    State state(graph, *backend, nullptr);
    state.initialise(graph, *backend, 1);
    EXPECT_EQ(weight_not_finite(comm, *backend, state), "");

    const auto spoil = [&](bool trained) {
        for (const NamedTensor& t : state.model()) {
            if (state.is_trained(t.tensor) != trained) continue;
            const float bad = NAN;
            backend->upload(t.tensor.data, &bad, sizeof bad);
            return t.name;
        }
        return std::string();
    };
    const int last = comm.size() - 1;
    std::string name;
    if (comm.rank() == last) name = spoil(false);
    name = comm.gather_all(name).back();
    EXPECT_EQ(weight_not_finite(comm, *backend, state),
              name + (comm.size() == 1 ? "" : " on rank " + std::to_string(last)));
    if (comm.rank() != last) spoil(false);
    EXPECT_EQ(weight_not_finite(comm, *backend, state), name) << "the same on all ranks";
    spoil(true);
    EXPECT_NE(weight_not_finite(comm, *backend, state), "");
}

}  // namespace
}  // namespace convoy::test
