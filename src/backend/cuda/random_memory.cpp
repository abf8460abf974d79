#include "backend/cuda/random_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/philox.h"

namespace convoy::cuda {

namespace {

std::vector<uint32_t> random_words() {
    // Both halves of a word, read as f16 or bf16, have a magnitude below 1; so has the word as f32.
    constexpr uint32_t sign_and_fraction = 0x83ff83ff, exponents = 0x38003800;
    std::vector<uint32_t> words(size_t(1) << 16);
    for (size_t i = 0; i < words.size(); ++i)
        words[i] = (philox(1, uint32_t(i), 0, 0, 0).word[0] & sign_and_fraction) | exponents;
    return words;
}

}  // namespace

DeviceMemory random_memory(size_t bytes, cudaStream_t stream) {
    static const std::vector<uint32_t> block = random_words();  // drawn once, in half a millisecond
    DeviceMemory memory(bytes);
    auto* to = static_cast<char*>(memory.get());
    size_t filled = std::min(bytes, 4 * block.size());
    check(cudaMemcpyAsync(to, block.data(), filled, cudaMemcpyHostToDevice, stream), "filling memory");
    for (; filled < bytes; filled += std::min(filled, bytes - filled))
        check(cudaMemcpyAsync(to + filled, to, std::min(filled, bytes - filled), cudaMemcpyDeviceToDevice, stream),
              "filling memory");
    check(cudaStreamSynchronize(stream), "filling memory");
    return memory;
}

}  // namespace convoy::cuda
