/* What a board's start-up code gives to harness.c, and what it takes from it. */
#ifndef SERVORL_BOARD_HARNESS_H
#define SERVORL_BOARD_HARNESS_H

#include <stdint.h>

/* Harness: never returns. The start-up code calls it with memory and floating point ready. */
void harness_run(void);

/* Harness: a fault handler ends here, and the host learns of it. */
void harness_fault(void);

/* Board: tells the host that something is to be read, by sending any byte over the first serial port. */
void board_notify(void);

/* Board: a counter that goes up with instructions, of which the low board_counter_mask bits count. */
uint32_t board_counter(void);
extern const uint32_t board_counter_mask;

/* Board: the stack pointer of the caller, and the lowest word that the stack may grow to. */
uint32_t *board_stack_pointer(void);
uint32_t *board_stack_limit(void);

#endif
