#include "train/classifier.h"

#include <algorithm>

namespace convoy {

Classifier::Classifier(Backend& backend, const Graph& graph, const State& state, const Preprocessing& preprocessing,
                       int batch)
    : backend_(backend),
      batch_(batch),
      shape_{batch, graph.values[graph.input].h, graph.values[graph.input].w, graph.values[graph.input].c},
      classes_(size_t(graph.classes)),
      images_(backend.allocate(shape_.count())),
      labels_(backend.allocate(size_t(batch) * sizeof(int32_t))),
      counters_(backend.allocate(sizeof(Counters))) {
    const std::vector<int32_t> no_labels(size_t(batch), 0);
    backend.upload(labels_.get(), no_labels.data(), no_labels.size() * sizeof(int32_t));
    const PreparedProgram prepared = prepare_program(graph, backend, {batch, batch, 0, false});
    arena_ = backend.allocate(std::max<size_t>(prepared.memory.bytes, 1));
    auto* counters = static_cast<Counters*>(counters_.get());
    Program program = lower({graph, backend, state, arena_, 0, false, counters}, prepared, {}, [&](Program& p) {
        Gather g{};
        g.images = {images_.get(), shape_, DType::u8};
        g.labels = {labels_.get(), {batch, 1, 1, 1}, DType::i32};
        g.counters = counters;
        g.mean = preprocessing.mean;
        g.stddev = preprocessing.stddev;
        g.x = p.input;
        g.y = p.labels;
        backend.gather(g, p.tape);
    });
    logits_ = program.logits;
    step_ = backend.finish(std::move(program.tape));
}

std::vector<float> Classifier::run(std::span<const uint8_t> images) {
    const size_t n = images.size() / (shape_.count() / size_t(batch_));
    require(n <= size_t(batch_), "no more images than the batch has");
    const Counters zero;
    backend_.upload(counters_.get(), &zero, sizeof zero);
    backend_.upload(images_.get(), images.data(), images.size());
    step_();
    backend_.synchronize();
    std::vector<float> logits(size_t(batch_) * classes_);
    backend_.download(logits.data(), logits_.data, logits.size() * sizeof(float));
    logits.resize(n * classes_);
    return logits;
}

}  // namespace convoy
