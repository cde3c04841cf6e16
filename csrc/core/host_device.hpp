// The one marker macro: what carries it runs on the host, on the GPU and on the chip.
#pragma once

#ifdef __CUDACC__
#define SERVORL_HOST_DEVICE __host__ __device__
#else
#define SERVORL_HOST_DEVICE
#endif
