/* Which ways through instrumented code were taken: a byte for each pair of places, one behind the other (led.py). */
#include <stdint.h>

#define WAYS (1 << 16)

uint8_t klogtool_reached[WAYS];
static uintptr_t last;

void __sanitizer_cov_trace_pc(void) {
  uintptr_t here = (uintptr_t)__builtin_return_address(0) * 0x9E3779B97F4A7C15u >> 48;
  klogtool_reached[here ^ last] = 1;
  last = here >> 1;
}
