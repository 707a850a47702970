/* Which calls are measured: what follows from each that is. */
#include "pace.h"

__thread struct pace pace = {.need = FEWEST};

void leave_weighed(uint64_t from, uint64_t to, uint32_t weight) {
	leave_other(from, from + (to - from) * weight);
	uint64_t since = to - pace.last, micro = ticks_a_microsecond();
	pace.last = to;
	if (weight == 1) {
		pace.run = since <= CLOSE * micro && !(page->saw & SAW_THREADS) ? pace.run + 1 : 0;
		return;
	}
	if (since > FAR * micro || to - from > CLOSE * micro) {
		pace.run = 0;
		pace.need = pace.need < MOST ? 2 * pace.need : MOST;
	} else if ((pace.run += OF) / OVER >= pace.need && pace.need > FEWEST) {
		pace.need /= 2;
		pace.run = pace.need;
	}
}
