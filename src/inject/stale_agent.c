#include "inject/stale_agent.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "inject/claim_page.h"
#include "inject/sites.h"
#include "target/proc_status.h"

bool stale_agent_is_none(const struct stale_agent *l)
{
	return !l->range_count && !l->descriptor_count;
}

bool stale_agent_is_kept_page(const struct stale_agent *l)
{
	return l->range_count == 1 && !l->descriptor_count && l->has_head && !l->head.tracer &&
	       l->ranges[0].size == l->head.stub_bytes;
}

/* More than a gospect ever makes. */
#define MOST_RANGES 64
#define MOST_DESCRIPTORS 64
/* The agent's code has some 15 KB. */
#define MOST_CODE_BYTES (CODE_MAX_STUB_BYTES + (1u << 20))

/* The target can make mappings of these names: this one may never have been gospect's. */
static struct error *must_check forged(struct target *t, const char *why)
{
	return error_format(
		ERROR_DENIED,
		"process %d has memory named gospect that is not a valid agent: %s; gospect does "
		"not touch it; restart the process to trace it",
		target_pid(t), why);
}

static struct error *must_check add_range(struct target *t, struct stale_agent *l,
					  const struct target_map *map)
{
	if (l->range_count == MOST_RANGES)
		return forged(t, "there are too many mappings");
	if (!array_reserve(&l->ranges, &l->range_capacity, l->range_count + 1))
		return &error_no_memory;
	l->ranges[l->range_count++] = (struct stale_range){map->start, map->end - map->start};
	return NULL;
}

/* Its sizes are as those that we make, and it is where it says. */
static bool has_our_sizes(const struct code_head *h, const struct target_map *map)
{
	return h->magic == CODE_MAGIC && h->code == map->start && h->site_count <= CODE_MAX_SITES &&
	       h->stub_bytes <= CODE_MAX_STUB_BYTES && !(h->stub_bytes % CODE_PAGE_BYTES) &&
	       h->stub_bytes <= map->end - map->start && code_head_bytes(h) <= h->stub_bytes &&
	       h->code_bytes <= MOST_CODE_BYTES && h->stub_bytes <= h->code_bytes &&
	       !(h->code_bytes % CODE_PAGE_BYTES) && h->agent == h->code + h->stub_bytes &&
	       (!h->control || h->control == h->code + h->code_bytes - CODE_PAGE_BYTES);
}

static struct error *must_check read_head(struct target *t, const struct target_map *map,
					  struct code_head *ret)
{
	size_t fixed = offsetof(struct code_head, sites);

	memset(ret, 0, sizeof(*ret));
	if (error_dropped(target_read(t, map->start, ret, fixed)))
		return forged(t, "its header cannot be read");
	if (ret->magic == CODE_MAGIC && ret->version != CODE_VERSION)
		return error_format(
			ERROR_DENIED,
			"process %d has the agent of another gospect version; remove it with that "
			"version: gospect doctor -p PID",
			target_pid(t));
	if (!has_our_sizes(ret, map))
		return forged(t, "the header of its code is invalid");
	if (error_dropped(
		    target_read(t, map->start + fixed, ret->sites, code_head_bytes(ret) - fixed)))
		return forged(t, "its header cannot be read");
	return NULL;
}

/* The page behind the agent that children forget: it has no name, but it lies in our mapping. */
static bool is_control(const struct stale_agent *l, const struct target_map *map)
{
	return l->has_head && !map->path[0] && map->start == l->head.control &&
	       map->end == map->start + CODE_PAGE_BYTES;
}

/* The kernel adds " (deleted)". */
static bool has_name(const char *path, const char *name)
{
	const char *prefix = "/memfd:";
	size_t n = strlen(prefix), size = strlen(name);

	return !strncmp(path, prefix, n) && !strncmp(path + n, name, size) &&
	       (!path[n + size] || path[n + size] == ' ');
}

static bool is_made_by_gospect(const char *path)
{
	return has_name(path, CODE_NAME) || has_name(path, DATA_NAME) || has_name(path, CLAIM_NAME);
}

/* Whether the slots that the head names are whole, not too many, and all in this mapping. */
static bool holds_slots(const struct target_map *map, const struct code_head *h)
{
	uint64_t size = h->fallback_slots - h->slots;

	return h->slots >= map->start && h->slots < map->end && !(size % AGENT_SLOT_BYTES) &&
	       size / AGENT_SLOT_BYTES <= AGENT_MOST_P_SLOTS &&
	       size + AGENT_FALLBACK_SLOTS * (uint64_t)AGENT_SLOT_BYTES <= map->end - h->slots;
}

/* The parts that the head names and that exist; some may have been unmapped since. */
struct present {
	bool control;
	bool data, slots;
	bool trampolines[CODE_TRAMPOLINE_PAGES];
};

static void note_present(const struct stale_agent *l, const struct target_map *map,
			 struct present *p)
{
	bool code = has_name(map->path, CODE_NAME), data = has_name(map->path, DATA_NAME);

	p->control |= is_control(l, map);
	p->data |= data;
	p->slots |= data && holds_slots(map, &l->head);
	for (unsigned int i = 0; code && i < CODE_TRAMPOLINE_PAGES; i++)
		p->trampolines[i] |= map->start == l->head.trampolines[i];
}

/* Forgets the parts that the head names and that are gone: the target may have other memory at
 * their addresses by now. */
static struct error *must_check forget_unmapped(struct target *t, struct stale_agent *l,
						const struct present *p)
{
	struct code_head *h = &l->head;

	if (!p->control)
		h->control = 0;
	if (!p->data)
		h->slots = h->fallback_slots = 0;
	for (unsigned int i = 0; i < CODE_TRAMPOLINE_PAGES; i++)
		if (!p->trampolines[i])
			h->trampolines[i] = 0;
	return h->slots && !p->slots ? forged(t, "its slots are outside its memory") : NULL;
}

/* Where a jump of ours leads: to a stub, or to a trampoline page. */
static bool is_our_jump(const struct code_head *h, uint64_t to)
{
	bool is = to - h->code < h->stub_bytes;

	for (unsigned int i = 0; i < CODE_TRAMPOLINE_PAGES; i++)
		is |= h->trampolines[i] && to - h->trampolines[i] < CODE_PAGE_BYTES;
	return is;
}

static struct error *must_check look_at_sites(struct target *t, const struct originals *originals,
					      struct stale_agent *l)
{
	struct code_head *h = &l->head;
	struct sites now;
	struct error *err;

	for (unsigned int i = 0; i < h->site_count; i++) {
		const struct code_site *site = &h->sites[i];

		if (!is_our_jump(h, site->jump))
			h->sites[i].address = 0;
		/* gospect restores only bytes of the program's file, not bytes that the target
		 * chooses; and none while another gospect is tracing. */
		if (site->address && !originals_have(originals, site->address, site->bytes)) {
			if (!l->holder)
				return forged(t, "its patches are outside the program's code");
			h->sites[i].address = 0;
		}
	}
	err = sites_read(t, h, &now);
	for (unsigned int i = 0; !err && i < h->site_count; i++)
		l->patched |= sites_is_jump(&now, h, i);
	return err;
}

/* Its owner is at work, or has ended. */
static struct error *must_check look_at_claim(struct target *t, const struct target_map *map,
					      struct stale_agent *l)
{
	struct claim_page page = {0};
	bool here;
	pid_t holder = 0;

	if (!error_dropped(target_read(t, map->start, &page, sizeof(page))))
		holder = claim_page_holder(&page, &here);
	if (!holder) {
		l->has_claim = true;
		return add_range(t, l, map);
	}
	l->holder = holder;
	l->holder_is_here = here;
	l->holder_cleans = page.cleans;
	return NULL;
}

static struct error *must_check look_at_map(struct target *t, const struct target_map *map,
					    uint64_t own, struct stale_agent *l)
{
	bool code = has_name(map->path, CODE_NAME), data = has_name(map->path, DATA_NAME);
	struct error *err = NULL;

	if (has_name(map->path, CLAIM_NAME))
		return map->start == own ? NULL : look_at_claim(t, map, l);
	if (code && !map->offset) {
		if (l->has_head)
			return forged(t, "it has two headers");
		err = read_head(t, map, &l->head);
		l->has_head = !err;
	}
	if (!err && (code || data || is_control(l, map)))
		err = add_range(t, l, map);
	return err;
}

struct error *stale_agent_find_in_maps(struct target *t, const struct originals *originals,
				       const struct target_maps *maps, uint64_t own,
				       struct stale_agent *l)
{
	struct present present = {0};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < maps->count; i++)
		err = look_at_map(t, &maps->items[i], own, l);
	for (size_t i = 0; !err && i < maps->count; i++)
		note_present(l, &maps->items[i], &present);
	if (!err && l->has_head)
		err = forget_unmapped(t, l, &present);
	return err || !l->has_head ? err : look_at_sites(t, originals, l);
}

struct error *stale_agent_read_head(struct target *t, const struct target_maps *maps,
				    struct code_head *ret)
{
	for (size_t i = 0; i < maps->count; i++)
		if (has_name(maps->items[i].path, CODE_NAME) && !maps->items[i].offset)
			return read_head(t, &maps->items[i], ret);
	return &error_fault;
}

static struct error *must_check look_at_descriptors(struct target *t, struct stale_agent *l)
{
	_cleanup_closedir_ DIR *folder = descriptor_folder_open(target_pid(t));
	char to[64];
	int fd;

	while (folder && (fd = descriptor_folder_next(folder, to, sizeof(to))) >= 0) {
		if (!is_made_by_gospect(to))
			continue;
		if (l->descriptor_count == MOST_DESCRIPTORS)
			return forged(t, "there are too many files");
		if (!array_reserve(&l->descriptors, &l->descriptor_capacity,
				   l->descriptor_count + 1))
			return &error_no_memory;
		l->descriptors[l->descriptor_count++] = fd;
	}
	return NULL;
}

struct error *stale_agent_find(struct target *t, const struct originals *originals, uint64_t own,
			       struct stale_agent *ret)
{
	_cleanup_maps_ struct target_maps maps = {0};
	struct stale_agent l = {0};
	struct error *err = target_maps(t, &maps);

	if (!err)
		err = stale_agent_find_in_maps(t, originals, &maps, own, &l);

	if (!err)
		err = look_at_descriptors(t, &l);
	if (err) {
		stale_agent_release(&l);
		return err;
	}
	*ret = l;
	return NULL;
}

struct error *stale_agent_check_holder(struct target *t, const struct stale_agent *l)
{
	if (!l->holder)
		return NULL;
	return error_format(
		ERROR_DENIED,
		"process %d is already traced by gospect process %d%s; wait until that ends",
		target_pid(t), l->holder, l->holder_is_here ? "" : " of another pid namespace");
}

void stale_agent_release(struct stale_agent *l)
{
	free(l->ranges);
	free(l->descriptors);
	*l = (struct stale_agent){0};
}
