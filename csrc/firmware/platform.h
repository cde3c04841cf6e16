/* What every inference kernel needs from the compiler.
 *
 * The kernels are the common subset of C99 and C++17: no heap, no libc call, no recursion. The exporter lays these
 * files out inside policy.c, and the Python extension compiles the same text, so that host and chip run one code.
 */
#ifndef SERVORL_FIRMWARE_PLATFORM_H
#define SERVORL_FIRMWARE_PLATFORM_H

#include <float.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "-ffast-math and -ffinite-math-only remove the checks for NaN: compile this file without them"
#endif

/* SERVORL_KERNEL marks a kernel, SERVORL_INLINE a function that kernels inline.
 *
 * - noipa: constants stay in their arrays, where a debugger or `servorl verify` can read them back, instead of being
 *   folded into a copy of the kernel for each layer.
 * - no-tree-loop-distribute-patterns: a loop that copies or clears must not become a call of memcpy or memset, which
 *   a firmware without libc does not have.
 * - fp-contract=off on a Cortex-M4 (FPv4): VMLA and VFMA take 3 cycles there, VMUL and VADD one each. Cores with FPv5
 *   (which define __ARM_FEATURE_NUMERIC_MAXMIN) fuse for free and keep the user's setting.
 */
#if defined(__GNUC__) && !defined(__clang__)
#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP) && !defined(__ARM_FEATURE_NUMERIC_MAXMIN)
#define SERVORL_OPTIMIZE optimize("no-tree-loop-distribute-patterns", "fp-contract=off")
#else
#define SERVORL_OPTIMIZE optimize("no-tree-loop-distribute-patterns")
#endif
#define SERVORL_KERNEL __attribute__((noipa, unused, SERVORL_OPTIMIZE)) static
#define SERVORL_INLINE __attribute__((SERVORL_OPTIMIZE)) static inline
#elif defined(__clang__)
#define SERVORL_KERNEL __attribute__((noinline, unused)) static
#define SERVORL_INLINE static inline
#else
#define SERVORL_KERNEL static
#define SERVORL_INLINE static inline
#endif

/* SERVORL_OPAQUE(x) costs no instruction: it keeps a compiler for Arm from turning the choice between two computed
 * values into a branch around one of them, so that the time of a kernel does not depend on the values.
 */
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP)
#define SERVORL_OPAQUE(x) __asm__("" : "+t"(x))
#else
#define SERVORL_OPAQUE(x) (void)(x)
#endif

/* Constants are read in words, which some cores fault on where they are not aligned. */
#if defined(__GNUC__)
#define SERVORL_ALIGNED __attribute__((aligned(4)))
#else
#define SERVORL_ALIGNED
#endif

/* The magnitude; NaN stays NaN. */
SERVORL_INLINE float servorl_magnitude(float x)
{
#if defined(__GNUC__)
  return __builtin_fabsf(x); /* one instruction, and no call: a builtin of this kind needs no libc */
#else
  return x < 0.0f ? -x : x;
#endif
}

#endif
