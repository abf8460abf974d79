// Checkpoint files that are kept, by name; and checkpoints as models.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "model/models.h"
#include "run/run_folder.h"
#include "run/run_writer.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

ModelFile linear_model() {
    return {{"linear", 1, 1, 10, 10},
            {std::vector<float>(10, 0.5f), std::vector<float>(10, 0.5f)},
            std::vector<std::string>(10, "a name")};
}
namespace fs = std::filesystem;

using Names = std::set<std::string>;

Names files_in(const std::string& folder) {
    Names names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
}

std::string slurp(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Checkpoints, TheNewestAndTheBestStay) {
    struct Written {
        int64_t step, best_step;
        Names left;
    };
    const std::vector<Written> all = {
        {10, 10, {"step-000000000010.h5"}},
        {20, 20, {"step-000000000010.h5", "step-000000000020.h5"}},
        {30, 20, {"step-000000000020.h5", "step-000000000030.h5"}},
        {40, 20, {"step-000000000020.h5", "step-000000000030.h5", "step-000000000040.h5"}},
        {50, 20, {"step-000000000020.h5", "step-000000000040.h5", "step-000000000050.h5"}},
        {60, 60, {"step-000000000050.h5", "step-000000000060.h5"}},
        {70, 60, {"step-000000000060.h5", "step-000000000070.h5"}},
    };
    const TempDir dir;
    cpu::CpuBackend backend({1, false}, test_comm());
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    const OptimizerSpec spec;
    const State state(graph, backend, &spec);
    Metrics metrics(dir.path());
    RunWriter writer({.run_dir = dir.path(), .keep = 2}, state, metrics);
    for (const Written& w : all) {
        Checkpoint c;
        c.model = linear_model();
        c.identity = {{"seed", "1"}};
        c.step = w.step;
        c.best_step = w.best_step;
        c.weights.resize(state.weights().count());
        c.optimizer.resize(state.optimizer_block().count());
        writer.write(std::move(c));
        writer.wait();
        const std::vector<RunWriter::Written> written = writer.written();
        ASSERT_EQ(written.size(), 1u);
        ASSERT_EQ(written[0].failure, "") << w.step;
        EXPECT_EQ(files_in(dir.path("checkpoints")), w.left) << "after step " << w.step;
    }
}

// A run may go back behind the same step several times.
TEST(Checkpoints, LaterOnesAreRenamedAndNoneIsLost) {
    const TempDir dir;
    const std::string later = "step-000000000030.h5";
    for (const std::string content : {"first", "second", "third"}) {
        for (const char* name : {"step-000000000010.h5", "step-000000000020.h5"})
            write_file(dir.path("checkpoints/") + name, "sound");
        write_file(dir.path("checkpoints/" + later), content);
        EXPECT_EQ(set_aside_after(dir.path(), 20).size(), 1u) << "the one to go on from stays";
    }
    EXPECT_EQ(files_in(dir.path("checkpoints")), (Names{"step-000000000010.h5", "step-000000000020.h5", later + ".old",
                                                        later + ".old-2", later + ".old-3"}));
    for (const auto& [ending, content] : {std::pair{".old", "first"}, {".old-2", "second"}, {".old-3", "third"}})
        EXPECT_EQ(slurp(dir.path("checkpoints/" + later + ending)), content);
    EXPECT_TRUE(set_aside_after(dir.path(), 20).empty());
}

TEST(Checkpoints, ReadAsAModelHaveTheMeanOfTheRanksRunningStatistics) {
    const TempDir dir;
    cpu::CpuBackend backend({1, false}, test_comm());
    const ModelOptions model{"resnet18", 32, 32, 3, 10};
    const Graph graph = fuse(build_model(model));
    const OptimizerSpec spec;
    for (const bool look_ahead : {false, true}) {
        const State trained(graph, backend, &spec, look_ahead);
        Checkpoint c;
        c.model = {model, {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}}, std::vector<std::string>(10, "class")};
        c.ranks = 3;
        c.weights.resize(trained.weights().count());
        for (size_t i = 0; i < c.weights.size(); ++i) c.weights[i] = float(i % 1000);
        c.optimizer.resize(trained.optimizer_block().count());
        const size_t each = trained.running().count();
        for (const float of_rank : {1.0f, 2.0f, 6.0f})
            for (size_t i = 0; i < each; ++i) c.running.push_back(of_rank * float(1 + i % 100));
        const std::string path = dir.path(look_ahead ? "b.h5" : "a.h5");
        write_checkpoint(path, c, trained);

        EXPECT_EQ(OpenModel(path).file().model.name, "resnet18");
        const State state(graph, backend, nullptr);
        OpenModel(path).load(state, backend);
        const auto* running = state.running().as<float>();
        for (size_t i = 0; i < state.running().count(); ++i) ASSERT_EQ(running[i], 3.0f * float(1 + i % 100)) << i;
        for (const NamedTensor& t : state.model()) {
            if (!state.is_trained(t.tensor)) continue;
            const auto same_name = [&](const NamedTensor& other) { return other.name == t.name; };
            const auto original = std::find_if(trained.model().begin(), trained.model().end(), same_name);
            ASSERT_NE(original, trained.model().end()) << t.name;
            const size_t at = size_t(original->tensor.as<float>() - trained.weights().as<float>());
            for (size_t i = 0; i < t.tensor.count(); ++i)
                ASSERT_EQ(t.tensor.as<float>()[i], float((at + i) % 1000)) << t.name;
        }
    }
}

// 200 kB is more than an attribute may hold. A changed byte is found.
TEST(Checkpoints, KeepTheTuningOfTheBackend) {
    const TempDir dir;
    cpu::CpuBackend backend({1, false}, test_comm());
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    const OptimizerSpec spec;
    const State state(graph, backend, &spec);
    Checkpoint c;
    c.model = linear_model();
    c.weights.resize(state.weights().count());
    c.optimizer.resize(state.optimizer_block().count());
    const std::string none = dir.path("none.h5"), path = dir.path("choices.h5");
    write_checkpoint(none, c, state);
    EXPECT_EQ(read_tuning(none), "");
    EXPECT_EQ(read_checkpoint(none, state, {}).tuning, "");
    for (int i = 0; i < 10000; ++i) c.tuning += "plan " + std::to_string(i) + " = 1.5 engine\n";
    write_checkpoint(path, c, state);
    EXPECT_EQ(read_tuning(path), c.tuning);
    EXPECT_EQ(read_checkpoint(path, state, {}).tuning, c.tuning);
    std::string bytes = slurp(path);
    const size_t at = bytes.find("plan 5000 = 1.5");
    ASSERT_NE(at, std::string::npos);
    bytes[at + 5] = '6';
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_THROW(read_tuning(path), Error);
    EXPECT_THROW(read_checkpoint(path, state, {}), Error);
    EXPECT_EQ(tuning_to_resume({dir.path("empty"), "", true, false}), "");
    EXPECT_EQ(tuning_to_resume({dir.path("empty"), path, false, false}), "")
        << "find_resume_point() says what is wrong";
}

// The file that a resumed run finds as model-best.h5. The weights of a checkpoint identify it.
TEST(Checkpoints, TheBestModelIsThatOfTheBranchThatGoesOn) {
    cpu::CpuBackend backend({1, false}, test_comm());
    const Graph graph = build_model({"linear", 1, 1, 10, 10});
    const OptimizerSpec spec;
    const State state(graph, backend, &spec);
    const auto checkpoint = [&](int64_t step, int64_t best_step) {
        Checkpoint c;
        c.model = linear_model();
        c.step = step;
        c.best_step = best_step;
        c.best_accuracy = 0.5;
        c.weights.resize(state.weights().count());
        for (const NamedTensor& t : state.model())  // gaps between tensors stay zero
            std::fill_n(&c.weights[t.tensor.as<float>() - state.weights().as<float>()], t.tensor.count(), float(step));
        c.optimizer.resize(state.optimizer_block().count());
        return c;
    };
    struct Case {
        const char* what;
        int64_t step, best_step;
        bool best_is_there, branched;
        int64_t file_before, file_after;  // step whose model is in model-best.h5; 0: no file
    };
    const Case cases[] = {
        {"it was killed before the model was written", 20, 20, false, false, 10, 20},
        {"a new folder, the best checkpoint is in the old one", 20, 10, true, false, 0, 10},
        {"a new folder, and no best checkpoint", 20, 10, false, false, 0, 0},
        {"later evaluations were set aside", 20, 10, true, true, 30, 10},
        {"they were, and the best checkpoint is gone", 20, 10, false, true, 30, 0},
        {"nothing happened", 20, 10, false, false, 10, 10},
    };
    for (const Case& c : cases) {
        const TempDir dir;
        const Checkpoint here = checkpoint(c.step, c.best_step);
        if (c.best_is_there)
            write_checkpoint(checkpoint_path(dir.path(), c.best_step), checkpoint(c.best_step, c.best_step), state);
        if (c.file_before > 0) save_model(best_model_path(dir.path()), checkpoint(c.file_before, c.file_before), state);
        const std::string said =
            renew_best_model(dir.path(), {here, checkpoint_path(dir.path(), c.step)}, c.branched, state, {});
        const bool aside = fs::exists(best_model_path(dir.path()) + ".old");
        EXPECT_EQ(aside, c.file_before > 0 && c.file_after == 0) << c.what;
        EXPECT_EQ(said.find("model-best.h5.old") != std::string::npos, aside) << said;
        if (!fs::exists(best_model_path(dir.path()))) {
            EXPECT_EQ(0, c.file_after) << c.what;
            continue;
        }
        OpenModel(best_model_path(dir.path())).load(state, backend);
        EXPECT_EQ(state.model()[0].tensor.as<float>()[0], float(c.file_after)) << c.what;
    }
}

}  // namespace
}  // namespace convoy::test
