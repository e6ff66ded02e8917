#include "requests/histogram.h"

static unsigned int octave_of(uint64_t ns)
{
	return ns ? 63 - __builtin_clzll(ns) : 0;
}

/* The part of the octave: the four bits below the highest one. */
static unsigned int part_of(uint64_t ns, unsigned int octave)
{
	uint64_t rest = ns ? ns - (1ull << octave) : 0;

	return octave >= 4 ? rest >> (octave - 4) : rest << (4 - octave);
}

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int octave = octave_of(ns);

	return octave * HISTOGRAM_PARTS + part_of(ns, octave);
}

/* The greatest value of a bucket. */
static uint64_t last_of(unsigned int bucket)
{
	unsigned int octave = bucket / HISTOGRAM_PARTS, part = bucket % HISTOGRAM_PARTS;
	uint64_t first = 1ull << octave;

	if (octave < 4)
		return first + (part >> (4 - octave));
	return first + (((uint64_t)part + 1) << (octave - 4)) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->counts[bucket_of(ns)]++;
	h->count++;
	h->total += ns;
	if (ns > h->max)
		h->max = ns;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
	double wanted = h->count * percent / 100;
	uint64_t seen = 0;

	for (unsigned int i = 0; i < HISTOGRAM_OCTAVES * HISTOGRAM_PARTS; i++) {
		seen += h->counts[i];
		if (seen && seen >= wanted)
			return last_of(i) < h->max ? last_of(i) : h->max;
	}
	return h->max;
}

uint64_t histogram_octave(const struct histogram *h, unsigned int octave)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < HISTOGRAM_PARTS; i++)
		count += h->counts[octave * HISTOGRAM_PARTS + i];
	return count;
}
