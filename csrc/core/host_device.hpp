// The one marker macro: a function that is inlined everywhere and runs on the host, on the GPU and on the chip.
// Inlining is forced so that a caller compiled for AVX2 never leaves an out-of-line copy that a plain caller could link.
#pragma once

#if defined(__CUDACC__)
#define SERVORL_HOST_DEVICE __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define SERVORL_HOST_DEVICE __attribute__((always_inline)) inline
#else
#define SERVORL_HOST_DEVICE inline
#endif
