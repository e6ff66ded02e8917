#include "lib/binaries.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/regular_file.h"

#define VDSO "[vdso]"

static const char *shown_id(const char *build_id)
{
	return *build_id ? build_id : "unknown";
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Two programs at one address: an address there could belong to either. */
static struct error *check_overlaps(const struct binaries *b)
{
	for (size_t i = 0; i < b->count; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct profile_mapping *x = &b->mappings[k], *y = &b->mappings[i];

			if (x->start < y->end && y->start < x->end)
				return error_format(
					ERROR_FAILED,
					"%s and %s have the same addresses: the profile was merged from two processes; symbolize each before you merge them",
					x->file, y->file);
		}
	}
	return NULL;
}

/* A file of --exe must be one that the addresses belong to. */
static struct error *check_named(const struct binaries *b)
{
	for (size_t i = 0; i < b->named; i++) {
		const struct debug_file *file = &b->given.items[i];
		bool wanted = !b->count;

		for (size_t k = 0; k < b->count; k++)
			wanted |= debug_file_is(file, b->mappings[k].build_id);
		if (!wanted)
			return error_format(
				ERROR_FAILED,
				"%s has build id %s, but the addresses are of %s with build id "
				"%s; name that program or an unstripped file of the same build",
				file->path, shown_id(file->build_id), b->mappings[0].file,
				shown_id(b->mappings[0].build_id));
	}
	return NULL;
}

/*
 * The path of the i-th file that a mapping's bytes may be in; NULL past the last. Without a build
 * id, only files that the user names are used.
 */
static const char *candidate(const struct binaries *b, const struct profile_mapping *m, size_t i)
{
	size_t limit = *m->build_id ? b->given.count : b->named;

	for (size_t k = 0; k < limit; k++)
		if (debug_file_is(&b->given.items[k], m->build_id) && !i--)
			return b->given.items[k].path;
	return !i && *m->build_id && m->file[0] == '/' ? m->file : NULL;
}

static bool is_build(const struct elf_file *elf, const char *build_id)
{
	return *build_id ? elf_file_has_build_id(elf, build_id) : !*elf_file_build_id(elf);
}

/* Why the file that a mapping names cannot be used. */
static struct error *must_check why_not(const struct profile_mapping *m)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	const char *remedy =
		"name it, or an unstripped file of the same build, with --exe FILE, or its "
		"directory with --debug-dir DIR";
	int fd = regular_file_open(m->file);

	if (!*m->build_id)
		return error_format(
			ERROR_FAILED,
			"the recording has no build id for %s, so gospect cannot identify its "
			"file; if you know the file, name it with --exe FILE",
			m->file);
	if (fd < 0)
		return error_format(ERROR_FAILED, "cannot find %s (build id %s): %s; %s", m->file,
				    m->build_id, strerror(errno), remedy);
	if (!error_dropped(elf_file_open(fd, m->file, &elf)) &&
	    elf_file_has_build_id(elf, m->build_id))
		return NULL;
	return error_format(ERROR_FAILED,
			    "%s has changed since the recording: its build id was %s and is %s; %s",
			    m->file, m->build_id, elf ? shown_id(elf_file_build_id(elf)) : "none",
			    remedy);
}

/* Opens the mapping's file as a Go program. *ret_found is false when it is none. */
static struct error *try_image(struct binaries *b, const struct profile_mapping *m,
			       const char *path, bool *ret_found)
{
	_cleanup_image_ struct image *img = NULL;
	struct elf_section text;
	struct error *err;

	if (error_dropped(image_open_file(path, &img)) || !is_build(img->elf, m->build_id))
		return NULL;
	if (elf_file_section(img->elf, ".text", &text) && !text.bytes)
		return error_format(
			ERROR_FAILED,
			"%s is a separate debug file of %s (build id %s), and Go functions need "
			"the program itself; name the program, stripped or not, with --exe FILE",
			path, m->file, m->build_id);
	err = image_place(img, m->start, m->offset);
	if (!err)
		err = golayout_open(img, NULL, &b->layout);
	if (err)
		return err;
	b->image = take_ptr(img);
	*ret_found = true;
	return NULL;
}

/* If the right file is found but unusable, the error has its own reason: an unknown Go version, or
 * a separate debug file without a function table. */
static struct error *find_image(struct binaries *b)
{
	struct error *err = NULL, *reason = NULL;

	for (size_t i = 0; i < b->count && !b->image; i++) {
		const struct profile_mapping *m = &b->mappings[i];
		bool found = false;
		const char *path;

		for (size_t k = 0; !found && (path = candidate(b, m, k)); k++) {
			err = try_image(b, m, path, &found);
			if (err && !reason)
				reason = err;
			else
				error_destroy(err);
		}
		b->main = i;
	}
	if (b->image) {
		if (!*elf_file_build_id(b->image->elf))
			remark(&b->remark,
			       "cannot check that %s is the recorded program: neither has a build "
			       "id",
			       elf_file_name(b->image->elf));
		error_destroy(reason);
		return NULL;
	}
	for (size_t i = 0; i < b->count && !reason; i++)
		reason = why_not(&b->mappings[i]);
	return reason ? reason
		      : error_format(ERROR_NOT_GO, "none of its mapped files is a Go program");
}

/* Opens the mapping's file as a plugin. *ret_found is false when it is none. */
static struct error *try_plugin(struct binaries *b, const struct profile_mapping *m,
				const char *path, bool *ret_found)
{
	struct binaries_plugin *plugin = &b->plugins[b->plugin_count];
	struct pclntab *last =
		b->plugin_count ? &plugin[-1].image->functions : &b->image->functions;
	_cleanup_image_ struct image *img = NULL;
	struct error *err;

	if (error_dropped(image_open_file(path, &img)) || !is_build(img->elf, m->build_id))
		return NULL;
	err = image_place(img, m->start, m->offset);
	if (!err)
		err = golayout_open(img, NULL, &plugin->layout);
	if (err)
		return err;
	last->next = &img->functions;
	plugin->image = take_ptr(img);
	b->plugin_count++;
	*ret_found = true;
	return NULL;
}

/* Go files beside the program. One that cannot be read has the names of its symbols. */
static void find_plugins(struct binaries *b)
{
	for (size_t i = 0; i < b->count && b->plugin_count < BINARIES_PLUGINS; i++) {
		const struct profile_mapping *m = &b->mappings[i];
		bool found = !strcmp(m->file, b->mappings[b->main].file);
		const char *path;

		for (size_t k = 0; !found && (path = candidate(b, m, k)); k++)
			error_destroy(try_plugin(b, m, path, &found));
	}
}

static struct error *open_vdso(struct elf_file **ret)
{
	int fd = debug_file_own_vdso();

	return fd < 0 ? error_format(ERROR_FAILED, "no such file") : elf_file_open(fd, VDSO, ret);
}

/* The mapping's best file: one that is not stripped, else the first; NULL: none. */
static struct elf_file *best_file(const struct binaries *b, const struct profile_mapping *m)
{
	_cleanup_elf_file_ struct elf_file *best = NULL;
	bool vdso = !strcmp(m->file, VDSO);
	const char *path;

	for (size_t i = 0; (path = vdso && !i ? VDSO : candidate(b, m, i)); i++) {
		_cleanup_elf_file_ struct elf_file *elf = NULL;
		int fd = vdso ? -1 : regular_file_open(path);

		if (error_dropped(vdso ? open_vdso(&elf) : elf_file_open(fd, path, &elf)) ||
		    !is_build(elf, m->build_id))
			continue;
		if (best && elf_file_is_stripped(elf))
			continue;
		elf_file_close(best);
		best = take_ptr(elf);
		if (!elf_file_is_stripped(best))
			break;
	}
	return take_ptr(best);
}

static void remark_missing(const struct binaries *b, const struct profile_mapping *m)
{
	_cleanup_error_ struct error *err = NULL;

	if (!strcmp(m->file, VDSO)) {
		remark(&b->remark,
		       "functions of the vDSO (build id %s) are shown as [vdso]: the kernel here "
		       "has another vDSO",
		       shown_id(m->build_id));
		return;
	}
	err = why_not(m);
	remark(&b->remark, "functions of %s are shown as [%s]: %s", m->file, base_name(m->file),
	       err ? err->message : "it cannot be read");
}

static struct error *add_modules(struct binaries *b)
{
	struct error *err = modules_of_files(b->image->machine, &b->modules);

	for (size_t i = 0; !err && i < b->count; i++) {
		const struct profile_mapping *m = &b->mappings[i];
		struct module_range range = {m->start, m->end, m->offset, m->file, m->build_id};
		struct elf_file *elf;

		err = cancel_check(b->cancel);
		if (err)
			break;
		elf = best_file(b, m);
		if (!elf)
			remark_missing(b, m);
		err = modules_add_file(b->modules, &range, elf);
	}
	return err;
}

struct error *binaries_open(struct binaries *b)
{
	struct error *err = check_overlaps(b);

	for (size_t i = 0; !err && i < b->count; i++) {
		err = cancel_check(b->cancel);
		if (!err)
			err = debug_files_look_up(&b->given, b->mappings[i].build_id);
	}
	if (!err)
		err = check_named(b);
	if (!err && !b->count)
		err = error_format(
			ERROR_FAILED,
			"it has no mappings, so nothing tells which files its addresses belong to");
	if (!err)
		err = find_image(b);
	if (err)
		return err;
	find_plugins(b);
	return add_modules(b);
}

void binaries_release(struct binaries *b)
{
	modules_close(b->modules);
	for (size_t i = 0; i < b->plugin_count; i++) {
		golayout_close(b->plugins[i].layout);
		image_close(b->plugins[i].image);
	}
	golayout_close(b->layout);
	image_close(b->image);
	debug_files_release(&b->given);
	*b = (struct binaries){0};
}
