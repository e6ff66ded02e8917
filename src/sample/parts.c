#include "sample/parts.h"

static struct error *hand_over(struct parts *p, uint64_t begin, uint64_t end)
{
	struct error *err = p->part(p->arg, begin, end, p->interval.parts, p->interval.part_count);

	p->interval.part_count = 0;
	return err;
}

static struct error *report_samples(struct parts *p, const struct cpu_source *cpu, uint64_t now)
{
	const struct cpu_bucket *samples;
	size_t count = cpu->buckets(cpu->arg, &samples);
	struct error *err = interval_add_samples(&p->interval, samples, count, cpu->period_ns);
	uint64_t begin = p->samples_end;

	p->samples_end = now;
	return err ? err : hand_over(p, begin, now);
}

struct error *parts_report(struct parts *p, const struct estimate *e, struct goroutine_set *set,
			   const struct cpu_source *cpu, uint64_t now)
{
	uint64_t begin = p->interval.credited, ns;
	struct error *err;

	if (!p->part)
		return NULL;
	err = interval_take_parts(&p->interval, e, goroutine_set_records(set),
				  goroutine_set_count(set), &ns);
	if (!err && ns)
		err = hand_over(p, begin, begin + ns);
	return err || !cpu->buckets ? err : report_samples(p, cpu, now);
}

struct error *parts_report_rest(struct parts *p, const struct estimate *e, uint64_t end)
{
	uint64_t begin = p->interval.credited;
	struct error *err = p->part ? interval_take_rest(&p->interval, e) : NULL;

	return err || !p->part ? err : hand_over(p, begin, end);
}
