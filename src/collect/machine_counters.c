#include "collect/machine_counters.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "target/proc_status.h"

/* The columns of the first line of /proc/stat that add up to all time; guests are in the first two
 * already. */
enum { STEAL = 7, COLUMNS };

void machine_counters_init(struct machine_counters *c, pid_t pid)
{
	*c = (struct machine_counters){.pid = pid};
	quota_find(pid, &c->quota);
}

/* A value as it is now; false in `has` where it cannot be read. */
struct reading {
	uint64_t value[TRACE_COUNTERS];
	bool has[TRACE_COUNTERS];
};

static void set(struct reading *r, enum trace_counter counter, uint64_t value)
{
	r->value[counter] = value;
	r->has[counter] = true;
}

static void read_machine(struct reading *r)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/stat");
	uint64_t tick_ns = 1000000000ull / sysconf(_SC_CLK_TCK), sum = 0;
	unsigned long column = 0;

	if (!f || fscanf(f, "cpu"))
		return;
	for (size_t i = 0; i < COLUMNS; i++) {
		if (fscanf(f, "%lu", &column) != 1)
			return;
		sum += column;
	}
	set(r, TRACE_COUNTER_STEAL, column * tick_ns);
	set(r, TRACE_COUNTER_MACHINE, sum * tick_ns);
}

/* Version 2 of control groups has throttled_usec, version 1 throttled_time in nanoseconds. */
static void read_throttling(const struct quota *q, struct reading *r)
{
	_cleanup_fclose_ FILE *f = q->period_ns && q->counts[0] ? door_fopen(q->counts) : NULL;
	unsigned long value;
	char name[64];

	while (f && fscanf(f, "%63s %lu", name, &value) == 2) {
		if (!strcmp(name, "nr_periods"))
			set(r, TRACE_COUNTER_PERIODS, value);
		else if (!strcmp(name, "nr_throttled"))
			set(r, TRACE_COUNTER_THROTTLED_PERIODS, value);
		else if (!strcmp(name, "throttled_usec"))
			set(r, TRACE_COUNTER_THROTTLED, value * 1000);
		else if (!strcmp(name, "throttled_time"))
			set(r, TRACE_COUNTER_THROTTLED, value);
	}
}

static void read_all(const struct machine_counters *c, struct reading *r)
{
	double seconds = process_cpu_seconds(c->pid);

	if (seconds >= 0)
		set(r, TRACE_COUNTER_CPU, seconds * 1e9);
	read_machine(r);
	read_throttling(&c->quota, r);
}

size_t machine_counters_read(struct machine_counters *c, struct trace_event *ret)
{
	struct reading r = {0};
	size_t count = 0;

	read_all(c, &r);
	for (size_t i = 0; i < TRACE_COUNTERS; i++) {
		uint64_t value;

		if (!r.has[i])
			continue;
		if (!c->has[i])
			c->first[i] = r.value[i];
		value = r.value[i] > c->first[i] ? r.value[i] - c->first[i] : 0;
		if (c->has[i] && value <= c->last[i] && i != TRACE_COUNTER_CPU)
			continue;
		c->has[i] = true;
		c->last[i] = value;
		ret[count++] = (struct trace_event){.kind = TRACE_COUNTER,
						    .arg = i,
						    .arg2 = value,
						    .m = TRACE_NO_M,
						    .p = TRACE_NO_P};
	}
	return count;
}
