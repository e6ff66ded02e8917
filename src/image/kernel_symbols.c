#include "image/kernel_symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "base/strbuf.h"

#define DENIED "cannot show kernel functions: permission denied: "
/* Addresses are the upper half of all. */
#define KERNEL_HALF (1ull << 63)

struct kernel_symbol {
	uint64_t address;
	uint32_t name; /* place in names */
};

struct kernel_symbols {
	struct kernel_symbol *items; /* by address */
	size_t count;
	size_t capacity;
	struct strbuf names;
};

static int compare_address(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* "ffffffff812a4ef0 T vfs_read", a module's with "\t[ext4]" behind. False: no memory. */
static bool add_line(struct kernel_symbols *k, char *line)
{
	char *end, *name;
	uint64_t address = strtoull(line, &end, 16);

	if (!(address & KERNEL_HALF) || end[0] != ' ' || !end[1] || !strchr("tTwW", end[1]) ||
	    end[2] != ' ')
		return true;
	name = end + 3;
	name[strcspn(name, "\t\n ")] = 0;
	if (!*name || k->names.length > UINT32_MAX - 4096)
		return true;
	if (!array_reserve(&k->items, &k->capacity, k->count + 1))
		return false;
	k->items[k->count++] = (struct kernel_symbol){address, k->names.length};
	strbuf_adds(&k->names, name);
	strbuf_add(&k->names, "_[k]", sizeof("_[k]"));
	return !k->names.failed;
}

struct error *kernel_symbols_read(FILE *f, struct kernel_symbols **ret)
{
	_cleanup_kernel_symbols_ struct kernel_symbols *k = calloc(1, sizeof(*k));
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	if (!k)
		return &error_no_memory;
	while (getline(&line, &room, f) > 0)
		if (!add_line(k, line))
			return &error_no_memory;
	if (ferror(f))
		return error_errno(ERROR_FAILED, errno, "cannot read the kernel's symbols");
	if (k->count)
		qsort(k->items, k->count, sizeof(*k->items), compare_address);
	*ret = k->count ? take_ptr(k) : NULL;
	return NULL;
}

struct error *kernel_symbols_explain(const struct access_self *self, int restrict_level)
{
	if (restrict_level >= 2)
		return error_format(ERROR_DENIED,
				    DENIED "kernel.kptr_restrict is %d, which hides kernel "
					   "addresses from every process; set it to 1 on the host",
				    restrict_level);
	/* kallsyms_show_value() (Linux 6.6, kernel/ksyms_common.c): at 0 everybody may see them
	 * where perf may be used for the kernel. */
	if (restrict_level <= 0)
		return error_format(ERROR_DENIED,
				    DENIED "kernel.perf_event_paranoid is above 1, which hides "
					   "kernel addresses from processes without CAP_SYSLOG; "
					   "run gospect %s",
				    access_remedy(self, CAP_SYSLOG));
	return error_format(ERROR_DENIED,
			    DENIED "kernel.kptr_restrict is %d, which hides kernel addresses "
				   "from processes without CAP_SYSLOG; run gospect %s",
			    restrict_level, access_remedy(self, CAP_SYSLOG));
}

static int restrict_level(void)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/sys/kernel/kptr_restrict");
	int level;

	return f && fscanf(f, "%d", &level) == 1 ? level : 0;
}

struct error *kernel_symbols_open(struct kernel_symbols **ret)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/kallsyms");
	struct kernel_symbols *k = NULL;
	struct access_self self;
	struct error *err;

	if (!f)
		return error_errno(ERROR_FAILED, errno,
				   "cannot read the kernel's symbols (/proc/kallsyms)");
	err = kernel_symbols_read(f, &k);
	if (err)
		return err;
	if (!k) {
		access_self_read(&self);
		return kernel_symbols_explain(&self, restrict_level());
	}
	*ret = k;
	return NULL;
}

void kernel_symbols_close(struct kernel_symbols *k)
{
	if (!k)
		return;
	free(k->items);
	strbuf_release(&k->names);
	free(k);
}

const char *kernel_symbols_function(const struct kernel_symbols *k, uint64_t address)
{
	size_t from = 0, to = k->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (k->items[middle].address <= address)
			from = middle + 1;
		else
			to = middle;
	}
	return from ? k->names.data + k->items[from - 1].name : "[kernel]";
}
