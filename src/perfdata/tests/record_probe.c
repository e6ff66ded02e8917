/*
 * Compares frame_record.h with the registers of samples, which show whether the frame pointer leads
 * to the function's own record.
 *
 * record_probe PERF.DATA PROGRAM
 *
 * All samples in Go code must be the program's. Prints how many there were, and each that is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "golayout/golayout.h"
#include "image/frame_record.h"
#include "perfdata/perf_sample.h"

struct probe {
	struct image *image;
	struct frame_records records;
	size_t samples;
	size_t wrong;
};

static void must(struct error *err)
{
	if (!err)
		return;
	fprintf(stderr, "record_probe: %s\n", err->message);
	exit(1);
}

static bool has_own_record(enum machine machine, uint64_t sp, uint64_t fp, int32_t delta)
{
	if (machine == MACHINE_AMD64)
		return delta >= 8 && fp == sp + delta - 8;
	return delta > 0 && fp == sp - 8;
}

/* Around calls to the vDSO, SP is that of another stack. */
static bool has_exact_frame(const struct go_func *f)
{
	static const char *const names[] = {"runtime.duffcopy", "runtime.duffzero", "time.now",
					    "runtime.nanotime1", "runtime.walltime"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(f->name, names[i]))
			return false;
	return !(f->flags & FUNC_TOPFRAME);
}

static void look_at(struct probe *p, const struct recorded_sample *s)
{
	enum machine machine = p->image->machine;
	const struct register_roles *roles = register_roles(machine);
	struct record_place place;
	uint64_t pc, sp, fp;
	struct go_func f;
	int32_t delta;
	bool own;

	if (!registers_get(&s->regs, roles->pc, &pc) || !registers_get(&s->regs, roles->sp, &sp) ||
	    !registers_get(&s->regs, roles->fp, &fp) ||
	    !pclntab_find(&p->image->functions, pc, &f) || !has_exact_frame(&f))
		return;
	delta = pclntab_sp_delta(&f, pc);
	must(frame_records_at(&p->records, p->image, 0, pc, &place));
	if (place.owner == RECORD_AHEAD || place.owner == RECORD_UNKNOWN)
		return;
	p->samples++;
	own = has_own_record(machine, sp, fp, delta);
	if (own == (place.owner == RECORD_OWN))
		return;
	p->wrong++;
	printf("%s+0x%lx has %s record of its own\n", f.name, pc - f.entry, own ? "a" : "no");
}

static void look_at_all(struct probe *p, const struct perf_file *file)
{
	struct recorded_sample s;

	for (size_t i = 0; i < file->count; i++) {
		const struct perf_attr *attr = perf_file_attr(file, &file->records[i]);

		if (file->records[i].type == PERF_RECORD_SAMPLE && attr &&
		    perf_sample_parse(attr, p->image->machine, &file->records[i], &s))
			look_at(p, &s);
	}
}

static struct error *read_file(const char *path, uint8_t **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return error_errno(ERROR_FAILED, errno, "cannot read %s", path);
	*ret = malloc(st.st_size + 1);
	if (!*ret || read(fd, *ret, st.st_size) != st.st_size)
		return error_format(ERROR_FAILED, "cannot read %s", path);
	*ret_size = st.st_size;
	return NULL;
}

int main(int argc, char **argv)
{
	_cleanup_golayout_ struct golayout *layout = NULL;
	_cleanup_perf_file_ struct perf_file file = {0};
	_cleanup_free_ uint8_t *bytes = NULL;
	struct probe p = {0};
	size_t size = 0;

	if (argc != 3)
		return 2;
	must(read_file(argv[1], &bytes, &size));
	must(perf_file_read(bytes, size, &file));
	must(image_open_file(argv[2], &p.image));
	must(golayout_open(p.image, NULL, &layout));
	look_at_all(&p, &file);
	printf("%zu samples, %zu wrong\n", p.samples, p.wrong);
	frame_records_release(&p.records);
	image_close(p.image);
	return p.wrong != 0;
}
