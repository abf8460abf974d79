// The optimizer in one launch over the arenas and the weight copies, the host's requests, and the records that end a step.
#include <algorithm>
#include <utility>

#include "backend/cuda/cuda_backend.h"

namespace convoy {

constexpr int loss_scale_growth = 2000;  // good steps before the loss scale doubles, as in PyTorch's GradScaler

namespace {

/// The matrices among an update's segments, with memory for each, and the segments told where their directions will be.
std::vector<kernels::MuonMatrix> muon_matrices(Backend& backend, const Update& u, std::vector<kernels::Segment>& segments,
                                               std::vector<Buffer>& memory) {
    const auto floats = [&](size_t count) {
        memory.push_back(backend.allocate((count + 15) / 16 * 16 * sizeof(float)));
        return static_cast<float*>(memory.back().get());
    };
    std::vector<kernels::MuonMatrix> matrices;
    for (const UpdateSegment& s : u.segments) {
        if (s.rows == 0) continue;
        const size_t count = size_t(s.rows) * size_t(s.columns), side = size_t(std::min(s.rows, s.columns));
        kernels::MuonMatrix m{int64_t(s.begin), s.steps, s.rows, s.columns, {floats(count), floats(count)}, floats(side * side), floats(side * side),
                              reinterpret_cast<double*>(floats(4 * kernels::MuonMatrix::parts)), floats(1)};
        const auto own = std::find_if(segments.begin(), segments.end(), [&](const kernels::Segment& k) { return k.begin == m.begin; });
        require(own != segments.end() && own->end == int64_t(s.end), "a matrix of Muon is one segment");
        own->direction = m.direction();
        own->rescale = m.rescale;
        matrices.push_back(m);
    }
    return matrices;
}

}  // namespace

void CudaBackend::update(const Update& u, Tape& tape) {
    std::vector<kernels::Segment> host = copies_.segments(u.weights, u.segments);
    std::vector<Buffer> memory;
    const std::vector<kernels::MuonMatrix> muon = muon_matrices(*this, u, host, memory);
    const Buffer matrices = allocate(muon.size() * sizeof(kernels::MuonMatrix));
    upload(matrices.get(), muon.data(), muon.size() * sizeof(kernels::MuonMatrix));
    const Buffer segments = allocate(host.size() * sizeof(kernels::Segment));
    upload(segments.get(), host.data(), host.size() * sizeof(kernels::Segment));
    auto* scale = static_cast<kernels::LossScale*>(loss_scale_.get());
    const std::vector<kernels::Span> running = std::exchange(new_running_, {});
    const Buffer spans = allocate(running.size() * sizeof(kernels::Span));
    upload(spans.get(), running.data(), running.size() * sizeof(kernels::Span));
    const bool scaled = options_.precision == Precision::f16;
    step(tape, "optimizer", [=, memory = std::move(memory), count = int(host.size()), span_count = int(running.size())](cudaStream_t s) {
        kernels::check_finite(u.gradients, u.count, scale, s);
        kernels::commit_finite(static_cast<const kernels::Span*>(spans.get()), span_count, s);
        kernels::decide_update(scale, u.stats, u.latch, scaled, s);
        kernels::orthogonalise(u, static_cast<const kernels::MuonMatrix*>(matrices.get()), muon, scale, s);
        kernels::update(u, static_cast<const kernels::Segment*>(segments.get()), count, scale, s);
        kernels::adjust_loss_scale(scale, scaled ? loss_scale_growth : 0, s);
    });
}

void CudaBackend::look_ahead(const LookAhead& l, Tape& tape) {
    const std::vector<kernels::Segment> host = copies_.segments(l.weights, l.segments);
    kernels::Segment all{0, int64_t(l.running_count), 0};
    all.count = all.end;
    const Buffer segments = allocate(host.size() * sizeof(kernels::Segment)), running = allocate(sizeof all);
    upload(segments.get(), host.data(), host.size() * sizeof(kernels::Segment));
    upload(running.get(), &all, sizeof all);
    step(tape, "look-ahead", [=, count = int(host.size())](cudaStream_t s) {
        const auto of = [](const Buffer& b) { return static_cast<const kernels::Segment*>(b.get()); };
        kernels::look_ahead(l.weights, l.slow, of(segments), count, l.count, l.decays, l.counters, l.stats, s);
        if (l.running_count > 0) kernels::look_ahead(l.running, l.slow_running, of(running), 1, l.running_count, l.decays, l.counters, l.stats, s);
    });
}

void CudaBackend::request(const Requests* requests, BatchStats* stats, Tape& tape) {
    // A captured step cannot read the host's atomics: it reads pinned copies that are refreshed before every step.
    mirrors_.push_back({requests, std::make_shared<PinnedMemory>(2 * sizeof(int))});
    step(tape, "requests",
         [=, flags = mirrors_.back().flags](cudaStream_t s) { kernels::request(static_cast<const int*>(flags->get()), stats, s); });
}

void CudaBackend::record(const BatchStats* stats, const float* learning_rates, StepRecord* ring, int64_t ring_size, Counters* counters,
                         int64_t global_batch, Tape& tape) {
    const auto* times = static_cast<const kernels::StepTimes*>(times_.get());
    step(tape, "record",
         [=](cudaStream_t s) { kernels::record(stats, learning_rates, ring, ring_size, counters, global_batch, times, s); });
}

void CudaBackend::accumulate(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters, int64_t global_batch,
                             Tape& tape) {
    step(tape, "totals", [=](cudaStream_t s) { kernels::accumulate(stats, totals, images, counters, global_batch, s); });
}

}  // namespace convoy
