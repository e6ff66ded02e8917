/* A core file of a program that is not hostile, through everything that `gospect dump --core`
 * does. */
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "made_program.h"
#include "showing.h"

static const struct kind {
	int minor;
	enum machine machine;
} kinds[] = {{27, MACHINE_AMD64}, {17, MACHINE_AMD64}, {22, MACHINE_ARM64}, {26, MACHINE_ARM64}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct made_program program_of(size_t kind)
{
	return (struct made_program){.minor = kinds[kind].minor,
				     .machine = kinds[kind].machine,
				     .sections = true};
}

/* The program's file; made once. */
static const char *program_path(size_t kind)
{
	static char paths[KINDS][32];

	if (!paths[kind][0]) {
		struct made_program p = program_of(kind);

		made_program_init(&p);
		snprintf(paths[kind], sizeof(paths[kind]), "/proc/self/fd/%d",
			 bytes_to_fd(p.file.data, p.file.length));
		made_program_release(&p);
	}
	return paths[kind];
}

static void dump_core(const char *path, const char *program)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	_cleanup_golayout_ struct golayout *lay = NULL;
	bool starting;

	if (error_dropped(target_open_core(path, program, &t)) ||
	    error_dropped(image_open(t, NULL, &img)) || error_dropped(golayout_open(img, t, &lay)))
		return;
	/* Refused or not: the code below must withstand it. */
	error_destroy(golayout_validate(lay, img, t, &starting));
	fuzz_accepted += show(t, img, lay) > 0;
}

/* The first byte says which program it is of, the rest is the core file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	int fd;

	if (size < 8)
		return 0;
	fd = bytes_to_fd(data + 8, size - 8);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	dump_core(path, program_path(data[0] % KINDS));
	close(fd);
	return 0;
}

static void emit_packed(size_t kind, const struct strbuf *core, fuzz_emit *emit, void *arg)
{
	size_t room = ZSTD_compressBound(core->length), size;
	uint8_t *packed = calloc(1, room + 8);

	fuzz_require(packed);
	packed[0] = kind;
	size = ZSTD_compress(packed + 8, room, core->data + 8, core->length - 8, 3);
	fuzz_require(!ZSTD_isError(size));
	emit(arg, packed, size + 8);
	free(packed);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (size_t kind = 0; kind < KINDS; kind++) {
		struct made_program p = program_of(kind);
		struct strbuf sb = STRBUF_INIT;

		made_program_init(&p);
		strbuf_add(&sb, (uint8_t[8]){kind}, 8);
		made_program_core(&p, &sb);
		emit(arg, sb.data, sb.length);
		emit_packed(kind, &sb, emit, arg);
		made_program_release(&p);
		strbuf_release(&sb);
	}
}
