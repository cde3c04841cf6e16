/* A dense layer, four rows at a time.
 *
 * `packed` holds, for each block of four rows, the four biases and then, column after column, the four weights: they
 * stream from flash in the order in which they are used, and each input is loaded once for four rows. The rows that
 * are left over (at most three) follow one after the other: bias, then the row's weights.
 */
#ifndef SERVORL_FIRMWARE_DENSE_H
#define SERVORL_FIRMWARE_DENSE_H

#include "platform.h"

/* Loads the next eight weights and returns where the ones after them begin. */
SERVORL_INLINE const float *servorl_next_eight(const float *packed, float weight[8])
{
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
  /* One instruction instead of eight, which GCC does not find by itself; VLDM wants neighbouring registers. */
  register float w0 __asm__("s16");
  register float w1 __asm__("s17");
  register float w2 __asm__("s18");
  register float w3 __asm__("s19");
  register float w4 __asm__("s20");
  register float w5 __asm__("s21");
  register float w6 __asm__("s22");
  register float w7 __asm__("s23");
  __asm__("vldmia %0!, {s16-s23}"
          : "+r"(packed), "=t"(w0), "=t"(w1), "=t"(w2), "=t"(w3), "=t"(w4), "=t"(w5), "=t"(w6), "=t"(w7)
          : "m"(*(const float(*)[8])packed));
  weight[0] = w0;
  weight[1] = w1;
  weight[2] = w2;
  weight[3] = w3;
  weight[4] = w4;
  weight[5] = w5;
  weight[6] = w6;
  weight[7] = w7;
  return packed;
#else
  weight[0] = packed[0];
  weight[1] = packed[1];
  weight[2] = packed[2];
  weight[3] = packed[3];
  weight[4] = packed[4];
  weight[5] = packed[5];
  weight[6] = packed[6];
  weight[7] = packed[7];
  return packed + 8;
#endif
}

/* output[rows] = weight[rows][columns] * input[columns] + bias[rows]; output must not overlap input. */
SERVORL_KERNEL void servorl_dense(const float *packed, const float *input, uint32_t columns, uint32_t rows,
                                  float *output)
{
  const float *const end = input + columns;
  const float *const pairs_end = input + (columns & ~(uint32_t)1);
  for (; rows >= 4; rows -= 4) {
    float sum0 = packed[0];
    float sum1 = packed[1];
    float sum2 = packed[2];
    float sum3 = packed[3];
    const float *x = input;
    packed += 4;
    for (; x != pairs_end; x += 2) { /* two columns a turn halve the cost of the loop itself */
      float weight[8];
      packed = servorl_next_eight(packed, weight);
      sum0 += weight[0] * x[0];
      sum1 += weight[1] * x[0];
      sum2 += weight[2] * x[0];
      sum3 += weight[3] * x[0];
      sum0 += weight[4] * x[1];
      sum1 += weight[5] * x[1];
      sum2 += weight[6] * x[1];
      sum3 += weight[7] * x[1];
    }
    if (x != end) {
      sum0 += packed[0] * x[0];
      sum1 += packed[1] * x[0];
      sum2 += packed[2] * x[0];
      sum3 += packed[3] * x[0];
      packed += 4;
    }
    output[0] = sum0;
    output[1] = sum1;
    output[2] = sum2;
    output[3] = sum3;
    output += 4;
  }
  for (; rows != 0; --rows) {
    float sum = *packed++;
    const float *x;
    for (x = input; x != end; ++x) {
      sum += *packed++ * *x;
    }
    *output++ = sum;
  }
}

#endif
