// The optimizer, which updates the arenas and the weight copies in one launch; the host's requests;
// checksums; and the records that end a step.
#include <algorithm>
#include <utility>

#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

constexpr int loss_scale_growth = 2000;  // good steps until the loss scale doubles, as in PyTorch's GradScaler

namespace {

/// Rounds up for alignment, because kernels load 16 bytes at once and sums are doubles.
constexpr size_t rounded(size_t floats) { return (floats + 63) / 64 * 64; }

/// Returns the number of floats that Muon needs for a matrix; 0 for other segments.
size_t muon_floats(const UpdateSegment& s) {
    const size_t count = size_t(s.rows) * size_t(s.columns), side = size_t(std::min(s.rows, s.columns));
    return s.rows == 0
               ? 0
               : 2 * rounded(count) + 2 * rounded(side * side) + rounded(4 * kernels::MuonMatrix::parts) + rounded(1);
}

/// Returns the matrices among an update's segments, with muon_floats() of `memory` for each.
std::vector<kernels::MuonMatrix> muon_matrices(const Update& u, float* memory) {
    const auto floats = [&](size_t count) { return std::exchange(memory, memory + rounded(count)); };
    std::vector<kernels::MuonMatrix> matrices;
    for (const UpdateSegment& s : u.segments) {
        if (s.rows == 0) continue;
        const size_t count = size_t(s.rows) * size_t(s.columns), side = size_t(std::min(s.rows, s.columns));
        matrices.push_back({.begin = int64_t(s.begin),
                            .steps = s.steps,
                            .rows = s.rows,
                            .columns = s.columns,
                            .x = {floats(count), floats(count)},
                            .gram = floats(side * side),
                            .polynomial = floats(side * side),
                            .squares = reinterpret_cast<double*>(floats(4 * kernels::MuonMatrix::parts)),
                            .rescale = floats(1)});
    }
    return matrices;
}

/// Sets where the segments of matrices find the direction and scale that Muon writes.
void direct(std::vector<kernels::Segment>& segments, const std::vector<kernels::MuonMatrix>& matrices) {
    for (const kernels::MuonMatrix& m : matrices) {
        const auto own = std::find_if(segments.begin(), segments.end(),
                                      [&](const kernels::Segment& s) { return s.begin == m.begin; });
        require(own != segments.end() && own->end - own->begin >= int64_t(m.rows) * m.columns,
                "a matrix of Muon is one segment");
        own->direction = m.direction();
        own->rescale = m.rescale;
    }
}

}  // namespace

void CudaBackend::update(const Update& u, Tape& tape) {
    std::vector<kernels::Segment> host = copies_->segments(u.weights, u.segments);
    size_t floats = 0;
    for (const UpdateSegment& s : u.segments) floats += muon_floats(s);
    if (floats > muon_floats_) {  // all programs share this memory, because one runs at a time
        muon_ = allocate(floats * sizeof(float));
        muon_floats_ = floats;
    }
    const std::vector<kernels::MuonMatrix> muon = muon_matrices(u, static_cast<float*>(muon_.get()));
    direct(host, muon);
    const Buffer matrices = allocate(muon.size() * sizeof(kernels::MuonMatrix));
    upload(matrices.get(), muon.data(), muon.size() * sizeof(kernels::MuonMatrix));
    const Buffer segments = allocate(host.size() * sizeof(kernels::Segment));
    upload(segments.get(), host.data(), host.size() * sizeof(kernels::Segment));
    auto* scale = static_cast<kernels::LossScale*>(loss_scale_.get());
    const bool scaled = options_.precision == Precision::f16;
    append(tape, named_launch(LaunchPhase::optimizer, "optimizer"),
           [=, memory = muon_, count = int(host.size())](cudaStream_t s) {
               kernels::check_finite(u.gradients, u.count, scale, s);
               kernels::decide_update(scale, u.stats, u.latch, scaled, s);
               kernels::orthogonalise(u, static_cast<const kernels::MuonMatrix*>(matrices.get()), muon, scale, s);
               kernels::update(u, static_cast<const kernels::Segment*>(segments.get()), count, scale, s);
               kernels::adjust_loss_scale(scale, scaled ? loss_scale_growth : 0, s);
           });
}

void CudaBackend::look_ahead(const LookAhead& l, Tape& tape) {
    const std::vector<kernels::Segment> host = copies_->segments(l.weights, l.segments);
    kernels::Segment all{0, int64_t(l.running_count), 0};
    all.count = all.end;
    const Buffer segments = allocate(host.size() * sizeof(kernels::Segment)), running = allocate(sizeof all);
    upload(segments.get(), host.data(), host.size() * sizeof(kernels::Segment));
    upload(running.get(), &all, sizeof all);
    append(tape, named_launch(LaunchPhase::look_ahead, "look-ahead"), [=, count = int(host.size())](cudaStream_t s) {
        const auto of = [](const Buffer& b) { return static_cast<const kernels::Segment*>(b.get()); };
        if (l.count > 0)
            kernels::look_ahead(l.weights, l.slow, of(segments), count, l.count, l.decays, l.counters, l.stats, s);
        if (l.running_count > 0)
            kernels::look_ahead(l.running, l.slow_running, of(running), 1, l.running_count, l.decays, l.counters,
                                l.stats, s);
    });
}

void CudaBackend::request(const Requests* requests, BatchStats* stats, BatchStats* own, Tape& tape) {
    if (!requests)
        return append(tape, named_launch(LaunchPhase::requests, "requests"),
                      [=](cudaStream_t s) { kernels::request(nullptr, stats, own, s); });
    // A captured step cannot read the host's atomics. It reads pinned copies, which prepare()
    // refreshes before every step.
    mirrors_.push_back({requests, std::make_shared<PinnedMemory>(3 * sizeof(int))});
    append(tape, named_launch(LaunchPhase::requests, "requests"), [=, flags = mirrors_.back().flags](cudaStream_t s) {
        kernels::request(static_cast<const int*>(flags->get()), stats, own, s);
    });
}

void CudaBackend::record(const Record& record, Tape& tape) {
    const auto* times = static_cast<const kernels::StepTimes*>(times_.get());
    append(tape, named_launch(LaunchPhase::record, "record"),
           [=](cudaStream_t s) { kernels::record(record, times, s); });
}

void CudaBackend::checksum(const Checksum& c, Tape& tape) {
    append(tape, named_launch(LaunchPhase::other, "checksum"), [c](cudaStream_t s) { kernels::checksum(c, s); });
}

void CudaBackend::accumulate(const BatchStats* stats, EvalTotals* totals, int64_t images, Counters* counters,
                             int64_t global_batch, Tape& tape) {
    append(tape, named_launch(LaunchPhase::totals, "totals"),
           [=](cudaStream_t s) { kernels::accumulate(stats, totals, images, counters, global_batch, s); });
}

}  // namespace convoy::cuda
