// Reads a batch of images, resident or staged: crop, resize, flip, normalise, mix, in one pass.
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
    const Buffer drawn = g.augment.mixes() ? allocate(size_t(g.x.shape.n) * sizeof(Mix)) : nullptr;
    step(tape, named_step(StepPhase::gather, "gather"), [=](cudaStream_t s) {
        const auto* scale = static_cast<const float*>(device.get());
        if (!g.staged) kernels::mark(&times->started, s);  // else Feed::begin_step() has done so
        auto* mixes = static_cast<Mix*>(drawn.get());
        if (g.augment.mixes()) kernels::draw_mixes(g, mixes, s);
        if (g.x.shape.n > 0) (shifted ? kernels::gather : kernels::resample)(g, scale, scale + channels, mixes, s);
        kernels::mark(&times->gathered, s);
    });
}

}  // namespace convoy::cuda
