// Trainings within the test program, on images that the test generates. The data of a test's
// formulas is in vectors; nothing is read from a file. The ranks are those of test_comm().
#pragma once
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "train/trainer.h"

namespace convoy::test {

/// A listener that ignores everything; a test overrides the calls that it needs.
class QuietListener : public TrainListener {
public:
    void on_steps(int64_t, const std::vector<StepRecord>&) override {}
    void on_epoch(const EpochSummary&) override {}
    void on_eval(int64_t, int64_t, const EvalResult&, bool) override {}
    void on_checkpoint(Checkpoint&&) override {}
    std::optional<Checkpoint> on_rollback(int64_t) override { return std::nullopt; }
};

/// Labelled images of one pixel.
struct Samples {
    static constexpr int channels = 10, classes = 10;
    std::vector<uint8_t> pixels;  ///< [n, channels]
    std::vector<int32_t> labels;  ///< [n]

    int count() const { return int(labels.size()); }
    /// Returns the model's input for a pixel: (pixel / 255 - 0.5) / 0.25.
    double input(int sample, int channel) const { return (pixels[sample * channels + channel] / 255.0 - 0.5) / 0.25; }
};
Samples draw_samples(int count, uint64_t seed);

/// The model `linear`: softmax regression from the channels to the classes.
Graph linear_graph();
/// Returns a setup in which each channel has mean 0.5 and deviation 0.25, whatever the samples are.
TrainSetup plain_setup(int64_t global_batch, double epochs);

/// A trainer that is built and initialised, with everything it works on. Without test images
/// nothing is evaluated.
class Training {
public:
    Training(Backend&, const Graph&, const Samples& train, const Samples* test, const TrainSetup&);
    /// Returns the current value of a weight or running statistic.
    std::vector<float> tensor(const std::string& name) const;

    Requests requests;

private:
    Backend& backend_;
    const Graph graph_;
    const DataSet train_;
    const std::unique_ptr<const DataSet> test_;

public:
    Trainer trainer;
};

}  // namespace convoy::test
