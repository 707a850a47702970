/* pace: what the library makes of calls whose lengths are known, by a clock that only they move. It prints a line "NAME SUM PART" for each
   kind of program: the sum of their lengths that it tells over the true one, and the part of the calls that it measured. */
#include <stdio.h>
#include <stdlib.h>

#include "../preload/pace.h"

static struct page here;
static const uint32_t one = 1;
struct page *page = &here;
const volatile uint32_t *mine = &one;
static uint64_t clock_now = 1, truth, measured, calls;

uint64_t nanoseconds(void) { return clock_now; }
void clocks(void) { here.tick1 = here.ns1 = clock_now; }

static void call(uint64_t ns) {
	uint32_t weight = weigh();
	uint64_t from = ticks();
	if (weight)
		enter_other(CALL_Recv, from);
	else
		pass(CALL_Recv);
	clock_now += ns;
	if (weight)
		leave_weighed(from, ticks(), weight), measured++;
	else
		passed();
	truth += ns;
	calls++;
}

static void work(uint64_t ns) { clock_now += ns; }

static void start(void) {
	for (int i = 0; i < 10000; i++)
		work(10000), call(500);
	truth = measured = calls = here.other = 0;
}

static void told(const char *name) {
	printf("%s %.4f %.4f\n", name, (double)here.other / (double)truth, (double)measured / (double)calls);
	start();
}

int main(void) {
	start();
	for (int i = 0; i < 1000000; i++)
		call(300 + rand() % 400);
	told("short");
	for (int i = 0; i < 3000000; i++)
		call(rand() % 50000 ? 500 : 2000000);
	told("seldom-long"); /* long ones are a tenth of a thousandth of the calls, and most of the time */
	for (int i = 0; i < 3000; i++) {
		work(1000000);
		call(1000000);
		for (int k = 0; k < 500; k++)
			call(500);
		work(2000000); /* of which nothing may count */
	}
	told("pipeline");
	for (int i = 0; i < 300000; i++)
		work(20000), call(500);
	told("sparse");
	return 0;
}
