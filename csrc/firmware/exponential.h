/* exp(2a) by operations that each keep the order of their arguments; what tanh and ELU are made of. */
#ifndef SERVORL_FIRMWARE_EXPONENTIAL_H
#define SERVORL_FIRMWARE_EXPONENTIAL_H

#include "platform.h"

/* exp(2a) for 0 <= a <= 9.1, and beyond that something larger, up to infinity: 2 / exp(18.2) is already less than
 * half of float's epsilon, so that nothing needs a clamp.
 *
 * The polynomial approximates exp(a / 2) and is raised to the fourth power. All of its coefficients are positive, so
 * that every rounded operation is non-decreasing in a, and so is the result. They minimise the largest error of tanh
 * (linear programme over [0.18, 9.1]). NaN stays NaN.
 */
SERVORL_INLINE float servorl_exp_twice(float a)
{
  float q = 0x1.0d806ap-18f;
  q = q * a + 0x1.60865ap-18f;
  q = q * a + 0x1.46f5b8p-12f;
  q = q * a + 0x1.4a213ap-9f;
  q = q * a + 0x1.569b3cp-6f;
  q = q * a + 0x1.ffd8bcp-4f;
  q = q * a + 0x1.000124p-1f;
  q = q * a + 0x1.ffffe8p-1f;
  q = q * q;
  return q * q;
}

#endif
