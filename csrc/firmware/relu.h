/* ReLU: max(x, 0); NaN stays NaN. */
#ifndef SERVORL_FIRMWARE_RELU_H
#define SERVORL_FIRMWARE_RELU_H

#include "platform.h"

/* x = x < 0 ? 0 : x, in place. */
SERVORL_KERNEL void servorl_relu_layer(float *x, uint32_t size)
{
  uint32_t i;
  for (i = 0; i < size; ++i) {
    x[i] = x[i] < 0.0f ? 0.0f : x[i];
  }
}

#endif
