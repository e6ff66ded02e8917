/* Durations by their length: sixteen buckets for each doubling, so a percentile is at most 6.25 %
 * more than the true one. */
#ifndef REQUESTS_HISTOGRAM_H
#define REQUESTS_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_OCTAVES = 64, HISTOGRAM_PARTS = 16 };

struct histogram {
	uint64_t counts[HISTOGRAM_OCTAVES * HISTOGRAM_PARTS];
	uint64_t count;
	uint64_t total;
	uint64_t max;
};

void histogram_add(struct histogram *h, uint64_t ns);
/* So many percent are no longer; 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
/* How many are from 2^octave ns on, and below twice that; octave 0 has those of 0 ns, too. */
uint64_t histogram_octave(const struct histogram *h, unsigned int octave);

#endif
