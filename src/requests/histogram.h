/* A histogram of durations: sixteen buckets for each power of two, so a percentile is at most
 * 6.25 % too large. */
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
/* The duration that this percentage does not exceed; 0 when the histogram is empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
/* How many are at least 2^octave ns and less than twice that. Octave 0 includes 0 ns. */
uint64_t histogram_octave(const struct histogram *h, unsigned int octave);

#endif
