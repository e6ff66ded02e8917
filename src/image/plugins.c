#include "image/plugins.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/functions.h"
#include "image/library.h"

#define MAX_PLUGINS 256

struct plugins {
	struct target *t;
	struct image_layout layout;
	pthread_mutex_t lock; /* any thread may look up a pc */
	uint64_t last;        /* the moduledata that the list ended with */
	size_t seen;
	struct pclntab *tail;
	struct image *items[MAX_PLUGINS];
	size_t count;
};

/* Whether the file that a core file names is the one that was mapped, as far as build ids tell; a
 * core may lack the page that has it. */
static bool is_of_core(struct target *t, const struct target_maps *maps, const char *path,
		       const struct elf_file *elf)
{
	_Alignas(8) uint8_t page[4096];
	char theirs[ELF_BUILD_ID_SIZE];

	for (size_t i = 0; i < maps->count; i++) {
		const struct target_map *map = &maps->items[i];

		if (map->offset || strcmp(map->path, path))
			continue;
		if (error_dropped(target_read(t, map->start, page, sizeof(page))))
			return true;
		elf_bytes_build_id(page, sizeof(page), theirs);
		return !*theirs || elf_file_has_build_id(elf, theirs);
	}
	return true;
}

static struct error *must_check open_mapped(struct target *t, const struct target_maps *maps,
					    const struct target_map *map, struct elf_file **ret)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	pid_t pid = target_pid(t);
	int fd = pid ? library_open_mapped(pid, map) : regular_file_open(map->path);
	struct error *err;

	if (fd < 0)
		return error_format(ERROR_FAILED, "cannot open %s", map->path);
	err = elf_file_open(fd, map->path, &elf);
	if (!err && !pid && !is_of_core(t, maps, map->path, elf))
		err = error_format(ERROR_FAILED, "%s has changed since the process loaded it",
				   map->path);
	if (!err)
		*ret = take_ptr(elf);
	return err;
}

/* Uses the file's bytes at the moduledata: a core file lacks the mappings of code. */
static bool find_bias(struct image *img, const struct target_map *map, uint64_t moduledata)
{
	uint64_t offset = map->offset + (moduledata - map->start);
	const struct elf_segment *segments;
	size_t count = elf_file_segments(img->elf, &segments);

	for (size_t i = 0; i < count; i++) {
		if (offset - segments[i].offset >= segments[i].file_size)
			continue;
		img->bias = moduledata - (segments[i].address + offset - segments[i].offset);
		return true;
	}
	return false;
}

/* The image of the file whose moduledata is mapped there. */
static struct error *must_check open_image(struct target *t, uint64_t moduledata,
					   struct image **ret)
{
	_cleanup_maps_ struct target_maps maps = {0};
	_cleanup_plain_image_ struct image *img = calloc(1, sizeof(*img));
	const struct target_map *map;
	struct error *err;

	if (!img)
		return &error_no_memory;
	err = target_maps(t, &maps);
	if (err)
		return err;
	map = target_maps_find(&maps, moduledata);
	if (!map || map->path[0] != '/')
		return error_format(ERROR_FAILED, "the process maps no file at 0x%lx", moduledata);
	err = open_mapped(t, &maps, map, &img->elf);
	if (err)
		return err;
	img->machine = elf_file_machine(img->elf);
	if (!find_bias(img, map, moduledata))
		return error_format(ERROR_CORRUPT, "%s has no ELF segment at 0x%lx", map->path,
				    moduledata);
	*ret = take_ptr(img);
	return NULL;
}

static struct error *must_check read_plugin(struct plugins *p, uint64_t moduledata)
{
	_cleanup_plain_image_ struct image *img = NULL;
	struct error *err = open_image(p->t, moduledata, &img);

	if (!err)
		err = functions_load_mapped(img, p->t, moduledata, &p->layout);
	if (err || p->count == MAX_PLUGINS)
		return err;
	p->items[p->count++] = img;
	__atomic_store_n(&p->tail->next, &img->functions, __ATOMIC_RELEASE);
	p->tail = &img->functions;
	img = NULL;
	return NULL;
}

/* Goes on from the end of the list. True: there was one more module, which is read. */
static bool read_more(struct plugins *p)
{
	size_t before = p->count;
	uint64_t next;

	while (p->seen < MAX_PLUGINS &&
	       !error_dropped(target_read_u64(p->t, p->last + p->layout.moduledata_next, &next)) &&
	       next) {
		p->seen++;
		p->last = next;
		error_destroy(read_plugin(p, next));
	}
	return p->count > before;
}

static bool more(void *arg, uint64_t pc)
{
	struct plugins *p = arg;
	bool any;

	pthread_mutex_lock(&p->lock);
	any = read_more(p);
	pthread_mutex_unlock(&p->lock);
	return any;
}

struct error *plugins_open(struct image *img, struct target *t, const struct image_layout *layout,
			   struct plugins **ret)
{
	struct plugins *p = calloc(1, sizeof(*p));

	if (!p)
		return &error_no_memory;
	p->t = t;
	p->layout = *layout;
	p->last = img->moduledata;
	p->tail = &img->functions;
	pthread_mutex_init(&p->lock, NULL);
	read_more(p);
	img->functions.more = more;
	img->functions.more_arg = p;
	*ret = p;
	return NULL;
}

void plugins_close(struct plugins *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++)
		image_release(p->items[i]);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

const struct image *plugins_get(const struct plugins *p, size_t i)
{
	return p && i < p->count ? p->items[i] : NULL;
}
