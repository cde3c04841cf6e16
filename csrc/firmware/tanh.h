/* tanh in constant time, without libc: |error| <= 2.3e-7, odd, non-decreasing over all floats, |y| <= 1. */
#ifndef SERVORL_FIRMWARE_TANH_H
#define SERVORL_FIRMWARE_TANH_H

#include "exponential.h"

/* Both formulas are always evaluated and one is selected, so that the time does not depend on the value.
 *
 * Near 0, x - x * s * g(s) with s = x * x keeps the relative error small too, and its rounding is below the step from
 * one float to the next; elsewhere 1 - 2 / (exp(2a) + 1) is a chain of monotone operations. tanh(+-0) = 0,
 * tanh(+-inf) = +-1, tanh(NaN) = NaN.
 */
SERVORL_INLINE float servorl_tanh(float x)
{
  const float a = servorl_magnitude(x);
  const float s = a * a;
  const float g = (0x1.8d5276p-5f * s - 0x1.102dep-3f) * s + 0x1.5552bep-2f;
  float near_zero = x - x * (s * g);
  float tail = 1.0f - 2.0f / (servorl_exp_twice(a) + 1.0f);
  SERVORL_OPAQUE(near_zero);
  SERVORL_OPAQUE(tail);
  tail = x < 0.0f ? -tail : tail;
  SERVORL_OPAQUE(tail);
  return a < 0.375f ? near_zero : tail;
}

/* x = tanh(x), in place. */
SERVORL_KERNEL void servorl_tanh_layer(float *x, uint32_t size)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    x[i] = servorl_tanh(x[i]);
  }
}

#endif
