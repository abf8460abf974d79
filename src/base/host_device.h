// Marks functions that both backends share: nvcc compiles them for host and device, other compilers
// see plain inline functions.
#pragma once

#ifdef __CUDACC__
#define CONVOY_HD __host__ __device__ inline
#else
#define CONVOY_HD inline
#endif
