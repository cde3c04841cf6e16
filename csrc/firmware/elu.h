/* ELU (alpha = 1) in constant time, without libc: |error| <= 3.6e-7, non-decreasing over all floats, y >= -1. */
#ifndef SERVORL_FIRMWARE_ELU_H
#define SERVORL_FIRMWARE_ELU_H

#include "exponential.h"

/* x where x > 0, else exp(x) - 1. As in tanh: a formula for small |x| whose rounding is below the step from one float
 * to the next, and a chain of monotone operations elsewhere. ELU(-inf) = -1, ELU(NaN) = NaN.
 */
SERVORL_INLINE float servorl_elu(float x)
{
  const float a = servorl_magnitude(x);
  const float g = ((-0x1.d5d20ap-8f * a + 0x1.526b38p-5f) * a - 0x1.553e8ep-3f) * a + 0x1.ffff9p-2f;
  float near_zero = a * (a * g) - a;
  float tail = 1.0f / servorl_exp_twice(0.5f * a) - 1.0f;
  SERVORL_OPAQUE(near_zero);
  SERVORL_OPAQUE(tail);
  tail = a < 0.375f ? near_zero : tail;
  SERVORL_OPAQUE(tail);
  return x > 0.0f ? x : tail;
}

/* x = ELU(x), in place. */
SERVORL_KERNEL void servorl_elu_layer(float *x, uint32_t size)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    x[i] = servorl_elu(x[i]);
  }
}

#endif
