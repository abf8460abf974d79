// Functions shared by the parts of the emulated device.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace convoy::test {

/// Puts work on a stream, like a kernel launch: into the graph while the stream is in a capture.
/// cudaGetLastError() returns an error next. `collective`: other ranks take part.
void put_on_stream(cudaStream_t, std::function<void()>, bool collective = false);
/// Returns true if the device skips work for this many threads, more than EMULATED_MOST_THREADS.
/// That is for rehearsals of programs whose results do not matter.
bool is_left_out(double threads);
/// Returns the device's compute capability, 10 * major + minor: EMULATED_CAPABILITY, or an H100's.
int claimed_capability();
/// Reports a potentially unsafe call, in CUDA's terms, by the calling thread. The mode of a capture
/// decides whether it is allowed.
cudaError_t make_unsafe_call();

}  // namespace convoy::test
