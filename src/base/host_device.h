// Marks arithmetic that both backends share: nvcc compiles it for the device, any other compiler
// sees plain inline code.
#pragma once

#ifdef __CUDACC__
#define CONVOY_HD __host__ __device__ inline
#else
#define CONVOY_HD inline
#endif
