/* A pprof profile, and every table and file that is made of one. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "profile/groups.h"
#include "profile/read.h"
#include "tests/made_up.h"

static void group(const struct profile_file *file, enum group_key key)
{
	_cleanup_groups_ struct groups groups = {0};

	fuzz_require(
		!error_dropped(groups_make(file->profile, file->symbols, key, "label", &groups)));
	fuzz_require(groups.count <= file->profile->count || key == GROUP_FUNC);
}

static void write_as(const struct profile_file *file, const struct profile_format *format)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fuzz_require(!error_dropped(format->write(file->profile, file->symbols, out)));
	fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_profile_file_ struct profile_file file = {0};

	if (error_dropped(profile_read(data, size, NULL, &file)))
		return 0;
	fuzz_accepted++;
	for (int key = GROUP_ROOT; key <= GROUP_LABEL; key++)
		group(&file, key);
	write_as(&file, &profile_format_folded);
	write_as(&file, &profile_format_html);
	write_as(&file, &profile_format_pprof);
	return 0;
}

static void emit_unpacked(fuzz_emit *emit, void *arg, const char *packed, size_t size)
{
	static uint8_t bytes[1 << 20];
	z_stream z = {.next_in = (Bytef *)packed, .avail_in = size};

	z.next_out = bytes;
	z.avail_out = sizeof(bytes);
	fuzz_require(inflateInit2(&z, 16 + MAX_WBITS) == Z_OK);
	fuzz_require(inflate(&z, Z_FINISH) == Z_STREAM_END);
	emit(arg, bytes, z.total_out);
	inflateEnd(&z);
}

static void emit_profile(fuzz_emit *emit, void *arg, void (*make)(struct made_up *m), bool raw)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_(made_up_deinit) struct made_up m = {0};
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	make(&m);
	if (raw)
		fuzz_require(!error_dropped(profile_symbolize(m.profile, NULL, &symbols)));
	else
		symbols = made_up_symbolize(&m);
	fuzz_require(!error_dropped(profile_format_pprof.write(m.profile, symbols, out)));
	fclose(out);
	emit(arg, text, size);
	emit_unpacked(emit, arg, text, size);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	emit_profile(emit, arg, made_up_small, false);
	emit_profile(emit, arg, made_up_small, true);
	emit_profile(emit, arg, made_up_hostile, false);
}
