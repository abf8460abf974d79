// Reads a batch of images, resident or staged: crops, resizes, flips, jitters, normalises and mixes
// them in one pass. Colour jitter needs one more pass before it.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::gather(const Gather& g, Tape& tape) {
    g.check();
    const size_t channels = g.mean.size();
    std::vector<float> factors(2 * channels);
    for (size_t c = 0; c < channels; ++c) {
        factors[c] = g.scale(c);
        factors[channels + c] = g.shift(c);
    }
    const Buffer device = allocate(factors.size() * sizeof(float));
    upload(device.get(), factors.data(), factors.size() * sizeof(float));
    auto* times = static_cast<kernels::StepTimes*>(times_.get());
    const bool shifted = g.augment.crop == Crop::shifted;
    const auto n = size_t(g.x.shape.n);
    const Buffer mixed = g.augment.mixes() ? allocate(n * sizeof(Mix)) : nullptr;
    const Buffer jittered = g.augment.jitters() ? allocate((n + 1) * sizeof(Jitter)) : nullptr;
    append(tape, named_launch(LaunchPhase::gather, "gather"), [=](cudaStream_t s) {
        const auto* scale = static_cast<const float*>(device.get());
        if (g.begins_step && !g.staged) kernels::mark(&times->started, s);  // staged: Feed::begin_step() did so
        auto* mixes = static_cast<Mix*>(mixed.get());
        if (mixes) kernels::draw_mixes(g, mixes, s);
        const kernels::BatchDraws drawn{mixes, static_cast<Jitter*>(jittered.get())};
        if (n > 0) (shifted ? kernels::gather : kernels::resample)(g, scale, scale + channels, drawn, s);
        if (g.begins_step) kernels::mark(&times->gathered, s);
    });
}

}  // namespace convoy::cuda
