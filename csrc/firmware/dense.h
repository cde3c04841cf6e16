/* A dense layer, four rows at a time.
 *
 * `packed` holds, for each block of four rows, the four biases and then, column after column, the four weights: they
 * stream from flash in the order in which they are used, and each input is loaded once for four rows. The rows that
 * are left over (at most three) follow one after the other: bias, then the row's weights.
 */
#ifndef SERVORL_FIRMWARE_DENSE_H
#define SERVORL_FIRMWARE_DENSE_H

#include "platform.h"

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
    for (; x != pairs_end; x += 2, packed += 8) { /* two columns a turn halve the cost of the loop itself */
      sum0 += packed[0] * x[0];
      sum1 += packed[1] * x[0];
      sum2 += packed[2] * x[0];
      sum3 += packed[3] * x[0];
      sum0 += packed[4] * x[1];
      sum1 += packed[5] * x[1];
      sum2 += packed[6] * x[1];
      sum3 += packed[7] * x[1];
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
