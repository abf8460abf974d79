// Implements trainings on drawn samples.
#include "tests/support/training.h"

#include <algorithm>

#include "model/models.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

SplitInfo info_of(const Samples& samples, const char* split) {
    SplitInfo info;
    info.split = split;
    info.images = samples.count();
    info.height = info.width = 1;
    info.channels = Samples::channels;
    info.classes = Samples::classes;
    return info;
}

DataSet::Read reader_of(const Samples& samples) {
    return [&samples](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
        std::copy_n(samples.pixels.begin() + first * Samples::channels, rows * Samples::channels, images);
        std::copy_n(samples.labels.begin() + first, rows, labels);
    };
}

std::unique_ptr<const DataSet> data_set_of(const Samples* samples, Backend& backend) {
    if (!samples) return nullptr;
    return std::make_unique<const DataSet>(test_comm(), backend, info_of(*samples, "test"), reader_of(*samples));
}

}  // namespace

Samples draw_samples(int count, uint64_t seed) {
    Samples samples;
    for (int i = 0; i < count; ++i) {
        samples.labels.push_back(int32_t(philox(seed, uint32_t(i), 1, 0, 0).word[0] % Samples::classes));
        for (int c = 0; c < Samples::channels; ++c)
            samples.pixels.push_back(uint8_t(philox(seed, uint32_t(i), 2, uint32_t(c), 0).word[0] >> 24));
    }
    return samples;
}

Graph linear_graph() { return fuse(build_model({"linear", 1, 1, Samples::channels, Samples::classes})); }

TrainSetup plain_setup(int64_t global_batch, double epochs) {
    TrainSetup setup;
    setup.optimizer.momentum = 0;
    setup.preprocessing = {std::vector<float>(Samples::channels, 0.5f), std::vector<float>(Samples::channels, 0.25f)};
    setup.global_batch = global_batch;
    setup.epochs = epochs;
    setup.log_interval = 1;
    return setup;
}

Training::Training(Backend& backend, const Graph& graph, const Samples& train, const Samples* test,
                   const TrainSetup& setup)
    : backend_(backend),
      graph_(graph),
      train_(test_comm(), backend, info_of(train, "train"), reader_of(train)),
      test_(data_set_of(test, backend)),
      trainer(test_comm(), backend, graph_, train_, test_.get(), setup, requests) {
    trainer.programs().prepare();
    trainer.programs().build();
    trainer.programs().initialise();
}

std::vector<float> Training::tensor(const std::string& name) const {
    for (const NamedTensor& t : trainer.programs().state().model()) {
        if (t.name != name) continue;
        std::vector<float> values(t.tensor.count());
        backend_.download(values.data(), t.tensor.data, t.tensor.bytes());
        return values;
    }
    fail(Exit(1), "the model has no tensor " + name);
}

}  // namespace convoy::test
