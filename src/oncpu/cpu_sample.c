#include "oncpu/cpu_sample.h"

#include <string.h>

#define MIN_TOPHASH 5 /* runtime/map.go: smaller ones mark slots that are empty or have moved */

bool cpu_sample_is_whole(const struct cpu_sample *m, size_t size)
{
	if (size < offsetof(struct cpu_sample, stage) || m->parked_size > sizeof(m->parked))
		return false;
	return !m->labels || (size >= offsetof(struct cpu_sample, bytes) &&
			      m->used <= size - offsetof(struct cpu_sample, bytes) &&
			      m->used <= sizeof(m->bytes));
}

/* The pieces collected so far. */
struct pieces {
	const struct cpu_sample *m;
	size_t at; /* of the next string, in m->bytes */
	struct target_range *ret;
	size_t count;
	bool ended; /* no more strings were copied */
};

static void add_piece(struct pieces *p, uint64_t address, size_t size, const void *bytes)
{
	if (size)
		p->ret[p->count++] = (struct target_range){address, size, (void *)bytes};
}

/* Adds the list or the bucket; false: it was not copied. */
static bool add_list(struct pieces *p, uint64_t address, size_t size)
{
	if (p->m->stage < CPU_SAMPLE_LIST || size > p->m->used)
		return false;
	add_piece(p, address, size, p->m->bytes);
	p->at = size;
	return true;
}

/* Adds the string whose pointer and length are at `where`. */
static void add_string(struct pieces *p, size_t where)
{
	uint64_t string[2];
	size_t size;

	memcpy(string, p->m->bytes + where, sizeof(string));
	size = string[1] < CPU_SAMPLE_STRING ? string[1] : CPU_SAMPLE_STRING;
	if (p->ended || size > p->m->used - p->at) {
		p->ended = true;
		return;
	}
	add_piece(p, string[0], size, p->m->bytes + p->at);
	p->at += size;
}

static void add_slice(struct pieces *p)
{
	const struct cpu_sample *m = p->m;
	size_t count = m->head[1] < CPU_SAMPLE_LABELS ? m->head[1] : CPU_SAMPLE_LABELS;

	add_piece(p, m->labels, 24, m->head);
	if (!add_list(p, m->head[0], count * 32))
		return;
	for (size_t i = 0; i < 2 * count; i++)
		add_string(p, 16 * i);
}

static void add_map(struct pieces *p)
{
	const struct cpu_sample *m = p->m;

	add_piece(p, m->labels, 8, m->head);
	add_piece(p, m->head[0], 48, m->head + 1);
	if (!add_list(p, m->head[3], CPU_SAMPLE_BUCKET))
		return;
	for (size_t i = 0; i < CPU_SAMPLE_LABELS; i++) {
		if (m->bytes[i] < MIN_TOPHASH)
			continue;
		add_string(p, 8 + 16 * i);
		add_string(p, 8 + 16 * (CPU_SAMPLE_LABELS + i));
	}
}

size_t cpu_sample_label_pieces(const struct cpu_sample *m, bool maps, struct target_range *ret)
{
	struct pieces p = {.m = m, .ret = ret};

	if (!m->labels || m->stage < CPU_SAMPLE_HEAD)
		return 0;
	if (maps)
		add_map(&p);
	else
		add_slice(&p);
	return p.count;
}
