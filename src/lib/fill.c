#include "lib/fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/plugins.h"
#include "lib/goroutine_filter.h"

_Static_assert((int)GOSPECT_RUNNING == (int)PROFILE_RUNNING &&
		       (int)GOSPECT_RUNNABLE == (int)PROFILE_RUNNABLE &&
		       (int)GOSPECT_SYSCALL == (int)PROFILE_SYSCALL &&
		       (int)GOSPECT_WAITING == (int)PROFILE_WAITING,
	       "one is handed on as the other");

/* A core file identifies mappings by their paths alone, if at all. */
static bool same_file(const struct target_map *a, const struct target_map *b)
{
	if (a->inode)
		return a->inode == b->inode && a->device == b->device;
	return a == b || (*a->path && !b->inode && !strcmp(a->path, b->path));
}

/* The mappings of the code of the program, or of a plugin. */
static struct error *must_check fill_module(struct profile *p, const struct gospect_target *s,
					    const struct target_maps *maps, const struct image *img)
{
	const struct target_map *entry = target_maps_find(maps, img->functions.text);
	struct error *err;

	for (size_t i = 0; entry && i < maps->count; i++) {
		const struct target_map *m = &maps->items[i];
		struct profile_mapping mapping = {
			.start = m->start,
			.end = m->end,
			.offset = m->offset,
			.file = *m->path ? m->path : (char *)target_exe_name(s->target),
			.build_id = (char *)elf_file_build_id(img->elf),
		};

		if (!m->executable || !same_file(entry, m))
			continue;
		err = profile_add_mapping(p, &mapping);
		if (err)
			return err;
	}
	return NULL;
}

static struct error *fill_mappings(struct profile *p, const struct gospect_target *s)
{
	_cleanup_maps_ struct target_maps maps = {0};
	const struct image *img = s->image;
	struct error *err = target_maps(s->target, &maps);

	for (size_t i = 0; !err && img; i++) {
		err = fill_module(p, s, &maps, img);
		img = plugins_get(s->image->plugins, i);
	}
	return err;
}

static bool has_mapping(const struct profile *p, uint64_t start)
{
	for (size_t i = 0; i < p->mapping_count; i++)
		if (p->mappings[i].start == start)
			return true;
	return false;
}

/* A module that was met may be missing from the profile's stacks: in time of the scheduler, or
 * behind a filter. */
static bool is_in_stacks(const struct profile *p, const struct module_range *range)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct profile_sample *sample = &p->samples[i];

		for (uint32_t j = 0; j < sample->depth; j++) {
			uint64_t pc = sample->pcs[j], address = stack_pc_lookup(pc);

			if (!stack_pc_is_pseudo(pc) && address >= range->start &&
			    address < range->end)
				return true;
		}
	}
	return false;
}

struct error *fill_modules(struct profile *p, const struct modules *modules)
{
	struct module_range range;
	struct error *err = NULL;

	for (size_t i = 0; !err && modules && modules_met(modules, i, &range); i++) {
		struct profile_mapping mapping = {range.start, range.end, range.offset,
						  (char *)range.path, (char *)range.build_id};

		if (!has_mapping(p, range.start) && is_in_stacks(p, &range))
			err = profile_add_mapping(p, &mapping);
	}
	return err;
}

struct error *fill_process(struct profile *p, const struct gospect_target *s)
{
	const char *path = target_exe_name(s->target), *slash = strrchr(path, '/');

	if (asprintf(&p->command, "%s (pid %d)", slash ? slash + 1 : path, target_pid(s->target)) <
	    0)
		p->command = NULL;
	p->go_version = strdup(s->image->info.version);
	if (!p->command || !p->go_version)
		return &error_no_memory;
	return fill_mappings(p, s);
}

static struct error *fill_labels(struct profile *p, const struct label_sets *sets, uint32_t id,
				 struct profile_label **ret, uint32_t *ret_count)
{
	struct label_set set = label_sets_get(sets, id);
	_cleanup_free_ struct profile_label *labels = calloc(set.count + 1, sizeof(*labels));

	if (!labels)
		return &error_no_memory;
	for (uint32_t i = 0; i < set.count; i++) {
		labels[i].key =
			intern_string(&p->strings, intern_get(&sets->strings, set.labels[i].key));
		labels[i].value =
			intern_string(&p->strings, intern_get(&sets->strings, set.labels[i].value));
		if (labels[i].key == INTERN_FAILED || labels[i].value == INTERN_FAILED)
			return &error_no_memory;
	}
	*ret = take_ptr(labels);
	*ret_count = set.count;
	return NULL;
}

struct error *fill_sample(struct profile *p, struct goroutine_set *set, uint32_t stack_id,
			  uint32_t labels_id, enum goroutine_status status, uint8_t wait_reason,
			  struct profile_sample *sample, uint32_t *ret_place)
{
	struct stack stack = stacks_get(goroutine_set_stacks(set), stack_id);
	_cleanup_free_ struct profile_label *labels = NULL;
	struct error *err;
	uint32_t place;

	err = fill_labels(p, goroutine_set_labels(set), labels_id, &labels, &sample->label_count);
	if (err)
		return err;
	sample->pcs = stack.pcs;
	sample->depth = stack.count;
	sample->labels = labels;
	sample->state = (enum profile_state)state_of(status);
	sample->wait = 0;
	if (sample->state == PROFILE_WAITING)
		sample->wait =
			intern_string(&p->strings, goroutine_set_wait_reason(set, wait_reason));
	if (sample->wait == INTERN_FAILED)
		return &error_no_memory;
	return profile_add_at(p, sample, ret_place ? ret_place : &place);
}

struct error *fill_unwinding(struct profile *p, struct goroutine_set *set)
{
	enum unwind_method method = stacks_unwinding(goroutine_set_stacks(set))->method;

	return profile_add_comment(p, "stacks unwound %s", unwind_method_words(method));
}
