// What the parts of the emulated device share.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace convoy::test {

/// Puts work on a stream, as the launch of a kernel does: into the graph while the stream is in a
/// capture. An error is what cudaGetLastError() says next. `collective`: other ranks take part.
void put_on_stream(cudaStream_t, std::function<void()>, bool collective = false);
/// Whether the device leaves out what takes so many threads: EMULATED_MOST_THREADS, for rehearsals
/// of programs whose numbers nobody reads, allows fewer.
bool is_left_out(double threads);
/// What CUDA calls a potentially unsafe call, by the calling thread: the mode of a capture says
/// whether it may be made.
cudaError_t make_unsafe_call();

}  // namespace convoy::test
