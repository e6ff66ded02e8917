#include "perfdata/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/version.h"

/* perf's build ids have 20 bytes; a shorter one is filled up with zeros. */
static bool same_build(const char *recorded, const char *ours)
{
	size_t n = strlen(ours);

	if (n > 40)
		n = 40;
	return !strncmp(recorded, ours, n) && strspn(recorded + n, "0") == strlen(recorded + n);
}

static bool is_known(const char *id)
{
	return id && id[strspn(id, "0")];
}

/* Opens it and compares it with the recorded build. */
static enum file_state try_file(struct recorded_file *file, const char *path, const char *id)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	int fd = regular_file_open(path);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? FILE_MISSING : FILE_UNREADABLE;
	if (error_dropped(elf_file_open(fd, path, &elf)))
		return FILE_UNREADABLE;
	snprintf(file->build_id, sizeof(file->build_id), "%s", elf_file_build_id(elf));
	file->is_checked = is_known(id);
	if (is_known(id) && !same_build(id, file->build_id))
		return FILE_OTHER_BUILD;
	file->is_go = version_is_go(elf);
	file->found = strdup(path);
	return FILE_USABLE;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool try_exe(struct programs *p, struct recorded_file *file, const char *id)
{
	if (!p->exe || (!is_known(id) && strcmp(base_name(p->exe), base_name(file->path))) ||
	    try_file(file, p->exe, id) != FILE_USABLE)
		return false;
	p->exe_used = true;
	return true;
}

static bool try_cache(struct recorded_file *file, const char *id)
{
	const char *home = getenv("HOME");
	char path[4096];

	if (!is_known(id) || !home)
		return false;
	snprintf(path, sizeof(path), "%s/.debug/.build-id/%.2s/%s/elf", home, id, id + 2);
	return try_file(file, path, id) == FILE_USABLE;
}

static enum file_state find_file(struct programs *p, struct recorded_file *file, const char *id)
{
	enum file_state state;

	if (try_exe(p, file, id))
		return FILE_USABLE;
	state = try_file(file, file->path, id);
	return state != FILE_USABLE && try_cache(file, id) ? FILE_USABLE : state;
}

struct recorded_file *programs_file(struct programs *p, const char *path)
{
	uint64_t *place = map_at(&p->by_path, (uintptr_t)path);
	struct recorded_file *file;

	if (!place)
		return NULL;
	if (*place)
		return p->files[*place - 1];
	if (!array_reserve(&p->files, &p->file_capacity, p->file_count + 1))
		return NULL;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->path = path;
	p->files[p->file_count++] = file;
	*place = p->file_count;
	file->state = find_file(p, file, perf_file_build_id(p->perf, path));
	return file;
}

/* The bias of the mapped file. False: the file has no code at the mapping's offset, so it is not
 * the mapped file. */
static bool find_bias(const struct image *img, const struct recorded_map *map, uint64_t *ret)
{
	const struct elf_segment *segments;
	size_t count = elf_file_segments(img->elf, &segments);
	uint64_t page = 4096, length = map->end - map->start;

	for (size_t i = 0; i < count; i++) {
		const struct elf_segment *s = &segments[i];
		uint64_t first = s->offset & ~(page - 1);

		if (!s->executable || map->offset < first ||
		    map->offset >= s->offset + s->file_size)
			continue;
		if (map->offset == first && length < s->file_size)
			continue;
		*ret = map->start - (s->address - s->offset + map->offset);
		return true;
	}
	return false;
}

static struct error *load(struct programs *p, struct recorded_program *program,
			  const struct recorded_map *map)
{
	struct recorded_file *file = program->file;
	struct error *err = image_open_file(file->found, &program->image);

	if (err)
		return err;
	if (program->image->machine != p->machine)
		return error_format(ERROR_FAILED, "it is built for another architecture");
	if (!find_bias(program->image, map, &program->bias) ||
	    (program->bias && !elf_file_is_pie(program->image->elf)))
		return error_format(
			ERROR_FAILED,
			"it is not the program that was recorded: the size or address of its code "
			"differs");
	program->image->bias = program->bias;
	return golayout_open(program->image, NULL, &program->layout);
}

static void program_destroy(struct recorded_program *program)
{
	if (!program)
		return;
	golayout_close(program->layout);
	image_close(program->image);
	free(program);
}

/* A program that is open already: the same file at the same address. */
static const struct recorded_program *
have(const struct programs *p, const struct recorded_file *file, const struct recorded_map *map)
{
	uint64_t bias;

	for (size_t i = 0; i < p->count; i++)
		if (p->items[i]->file == file && find_bias(p->items[i]->image, map, &bias) &&
		    bias == p->items[i]->bias)
			return p->items[i];
	return NULL;
}

struct error *programs_go(struct programs *p, const struct recorded_map *map,
			  const struct recorded_program **ret)
{
	struct recorded_file *file = programs_file(p, map->path);
	struct recorded_program *new;
	struct error *err;

	*ret = NULL;
	if (!file)
		return &error_no_memory;
	if (file->state != FILE_USABLE || !file->is_go || file->why)
		return NULL;
	*ret = have(p, file, map);
	if (*ret)
		return NULL;
	if (!array_reserve(&p->items, &p->capacity, p->count + 1))
		return &error_no_memory;
	new = calloc(1, sizeof(*new));
	if (!new)
		return &error_no_memory;
	new->file = file;
	new->number = p->count;
	err = load(p, new, map);
	if (err) {
		program_destroy(new);
		if (err->code == ERROR_NO_MEMORY)
			return err;
		file->why = err;
		return NULL;
	}
	p->items[p->count++] = new;
	*ret = new;
	return NULL;
}

void programs_release(struct programs *p)
{
	for (size_t i = 0; i < p->count; i++)
		program_destroy(p->items[i]);
	for (size_t i = 0; i < p->file_count; i++) {
		error_destroy(p->files[i]->why);
		free(p->files[i]->found);
		free(p->files[i]);
	}
	free(p->items);
	free(p->files);
	map_release(&p->by_path);
	*p = (struct programs){0};
}
