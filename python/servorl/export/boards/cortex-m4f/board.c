/* Start-up code of a bare Cortex-M4F: vectors, floating point, memory, SysTick as the instruction counter. */
#include "harness.h"

#define CPACR (*(volatile uint32_t *)0xE000ED88U)
#define UART_DATA (*(volatile uint32_t *)0x40004000U)
#define UART_STATE (*(volatile uint32_t *)0x40004004U)
#define UART_CTRL (*(volatile uint32_t *)0x40004008U)
#define UART_BAUDDIV (*(volatile uint32_t *)0x40004010U)
#define SYST_CSR (*(volatile uint32_t *)0xE000E010U)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014U)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018U)

extern uint32_t linker_data_start, linker_data_end, linker_data_load, linker_bss_start, linker_bss_end;
extern uint32_t linker_stack_top, linker_stack_limit;

const uint32_t board_counter_mask = 0xFFFFFFU;

__attribute__((noreturn)) void board_reset(void);

__attribute__((noreturn)) static void board_fault(void)
{
  for (;;) {
    harness_fault();
  }
}

struct vector_table {
  uint32_t *stack;
  void (*handlers[15])(void);
};

__attribute__((section(".vectors"), used)) static const struct vector_table vectors = {
  &linker_stack_top,
  {board_reset, board_fault, board_fault, board_fault, board_fault, board_fault, board_fault, board_fault,
   board_fault, board_fault, board_fault, board_fault, board_fault, board_fault, board_fault},
};

/* volatile: without a libc, the loops must not become calls of memcpy and memset. */
void board_reset(void)
{
  volatile uint32_t *word = &linker_data_start;
  const uint32_t *source = &linker_data_load;
  while (word < &linker_data_end) {
    *word++ = *source++;
  }
  for (word = &linker_bss_start; word < &linker_bss_end; ++word) {
    *word = 0;
  }
  CPACR |= 0xFU << 20; /* the FPU is off after reset, and using it would fault */
  __asm volatile("dsb\n isb" ::: "memory");
  SYST_RVR = 0xFFFFFFU;
  SYST_CVR = 0;
  SYST_CSR = 5; /* core clock, no interrupt, running */
  UART_BAUDDIV = 16;
  UART_CTRL = 1; /* transmit only */
  harness_run();
  board_fault();
}

void board_notify(void)
{
  while (UART_STATE & 1U) { /* the transmitter is full */
  }
  UART_DATA = '.';
}

/* SysTick counts down. */
uint32_t board_counter(void)
{
  return 0U - SYST_CVR;
}

__attribute__((naked)) uint32_t *board_stack_pointer(void)
{
  __asm("mov r0, sp\n bx lr");
}

uint32_t *board_stack_limit(void)
{
  return &linker_stack_limit;
}
