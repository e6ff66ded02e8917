/* What perf recorded, to a file or to a pipe, packed or not. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "perfdata/perfdata.h"
#include "tests/made_file.h"

/* What is written again is as readable, and has the samples. */
static void rewrite(const uint8_t *data, size_t size)
{
	_cleanup_perfdata_remarks_ struct perfdata_remarks remarks = {0}, more = {0};
	_cleanup_profile_file_ struct profile_file file = {0};
	char *bytes = NULL;
	size_t written;
	FILE *out = open_memstream(&bytes, &written);

	fuzz_require(out);
	if (!error_dropped(perfdata_rewrite(data, size, NULL, NULL, out, &remarks))) {
		fclose(out);
		fuzz_require(written < 1 << 20 || written / 4 < size);
		fuzz_require(!error_dropped(
			perfdata_read((uint8_t *)bytes, written, NULL, NULL, &file, &more)));
	} else {
		fclose(out);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_perfdata_remarks_ struct perfdata_remarks remarks = {0};
	_cleanup_profile_file_ struct profile_file file = {0};

	if (error_dropped(perfdata_read(data, size, NULL, NULL, &file, &remarks)))
		return 0;
	fuzz_accepted++;
	fuzz_require(file.profile->count && file.symbols);
	rewrite(data, size);
	return 0;
}

/* A process that maps something anew, a child, exec, an end, samples in between. */
static void make_processes(struct made_file *f)
{
	static const uint64_t callers[] = {0x401010, 0x401020, 0};

	made_comm(f, 10, "first", 0);
	made_mmap(f, 10, 0x400000, 0x2000, "/nowhere/first", 0);
	made_mmap(f, 10, 0x500000, 0x2000, "//anon", 1);
	made_sample(f, 10, 100, 0x401000, callers);
	made_fork(f, 11, 10, 200);
	made_fork(f, 10, 10, 201);
	made_mmap(f, 11, 0x501000, 0x2000, "[vdso]", 210);
	made_sample(f, 11, 250, 0x501000, callers);
	made_comm(f, 11, "second", 300);
	made_sample(f, 11, 400, 0x401001, callers);
	made_exit(f, 11, 410);
	made_exit(f, 10, 420);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (int kind = 0; kind < 4; kind++) {
		struct made_file f;
		size_t from;

		made_begin(&f, kind & 1);
		from = f.size;
		make_processes(&f);
		if (kind & 2)
			made_pack(&f, from);
		made_end(&f, kind & 1 ? "" : "x86_64");
		emit(arg, f.bytes, f.size);
		free(f.bytes);
	}
}
