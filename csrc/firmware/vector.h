/* Element-wise steps around the network: the check for NaN, the normaliser, the action transform. */
#ifndef SERVORL_FIRMWARE_VECTOR_H
#define SERVORL_FIRMWARE_VECTOR_H

#include "platform.h"

/* 1 where every value is finite, else 0. Looks at all of them, so that the time does not depend on the values. */
SERVORL_KERNEL int servorl_all_finite(const float *x, uint32_t size)
{
  int finite = 1;
  uint32_t i;
  for (i = 0; i < size; ++i) {
    finite &= servorl_magnitude(x[i]) <= FLT_MAX;
  }
  return finite;
}

/* output = clip((x - mean) * inv_std, -limit, limit); a limit of FLT_MAX leaves every finite value as it is. */
SERVORL_KERNEL void servorl_normalize(const float *x, const float *mean, const float *inv_std, float limit,
                                      uint32_t size, float *output)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    float value = (x[i] - mean[i]) * inv_std[i];
    value = value > limit ? limit : value;
    output[i] = value < -limit ? -limit : value;
  }
}

/* x = offset + scale * x, in place. */
SERVORL_KERNEL void servorl_affine(const float *scale, const float *offset, uint32_t size, float *x)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    x[i] = offset[i] + scale[i] * x[i];
  }
}

/* output = clip(x, low, high); NaN stays NaN. */
SERVORL_KERNEL void servorl_clip(const float *x, const float *low, const float *high, uint32_t size, float *output)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    float value = x[i] > high[i] ? high[i] : x[i];
    output[i] = value < low[i] ? low[i] : value;
  }
}

/* Copies; output and x may be the same. */
SERVORL_KERNEL void servorl_copy(const float *x, uint32_t size, float *output)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    output[i] = x[i];
  }
}

/* Sets every value. */
SERVORL_KERNEL void servorl_fill(float value, uint32_t size, float *output)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    output[i] = value;
  }
}

#endif
