/*
 * Where the runtime keeps things, of a hostile file and a hostile process: the file, then the bytes
 * at two addresses, then lies about them.
 */
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "golayout/runtime_variables.h"
#include "liar.h"
#include "made_program.h"

struct header {
	uint32_t file_size;
	uint32_t data_size;
	uint32_t heap_size;
	uint32_t unused;
	uint64_t bias;
};

static struct bytes take(struct cursor *c, size_t size)
{
	size_t left = c->end - c->at;

	size = size < left ? size : left;
	return (struct bytes){cursor_bytes(c, size), size};
}

static void open_and_validate(struct image *img, struct target *t)
{
	_cleanup_golayout_ struct golayout *lay = NULL;
	struct golayout_variables v = {0};
	bool starting;

	if (error_dropped(golayout_open(img, t, &lay)))
		return;
	fuzz_require(lay->v.wait_reason_count >= 2);
	error_destroy(variables_find_by_rules(img, &lay->n, &v));
	fuzz_accepted += !error_dropped(golayout_validate(lay, img, t, &starting));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_image_ struct image *img = NULL;
	_cleanup_target_ struct target *truth = NULL;
	struct cursor c = cursor_of(data, size, "input");
	struct bytes file, memory[2];
	struct target_range ranges[2];
	struct header h;
	struct liar liar;
	char path[32];
	int fd;

	if (size < sizeof(h))
		return 0;
	memcpy(&h, cursor_bytes(&c, sizeof(h)), sizeof(h));
	file = take(&c, h.file_size);
	memory[0] = take(&c, h.data_size);
	memory[1] = take(&c, h.heap_size);
	ranges[0] = (struct target_range){PROGRAM_DATA, memory[0].size, (void *)memory[0].data};
	ranges[1] = (struct target_range){PROGRAM_HEAP, memory[1].size, (void *)memory[1].data};
	fuzz_require(!target_open_memory(ranges, 2, &truth));
	liar_init(&liar, truth, c.at, c.end - c.at);
	fd = bytes_to_fd(file.data, file.size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!error_dropped(image_open_file(path, &img))) {
		img->bias = elf_file_is_pie(img->elf) ? h.bias : 0;
		open_and_validate(img, &liar.base);
	}
	close(fd);
	return 0;
}

static void emit_made(int minor, enum machine machine, int variant, fuzz_emit *emit, void *arg)
{
	struct made_program p = {.minor = minor,
				 .machine = machine,
				 .sections = variant & 1,
				 .pie = variant & 2};
	struct strbuf sb = STRBUF_INIT;
	struct header h = {.data_size = PROGRAM_DATA_SIZE, .heap_size = PROGRAM_HEAP_SIZE};

	made_program_init(&p);
	h.file_size = p.file.length;
	strbuf_add(&sb, &h, sizeof(h));
	strbuf_add(&sb, p.file.data, p.file.length);
	strbuf_add(&sb, p.data, sizeof(p.data));
	strbuf_add(&sb, p.heap, sizeof(p.heap));
	fuzz_require(!sb.failed);
	emit(arg, sb.data, sb.length);
	strbuf_release(&sb);
	made_program_release(&p);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++)
		emit_made(minor, minor & 1 ? MACHINE_ARM64 : MACHINE_AMD64, minor, emit, arg);
	for (int variant = 0; variant < 4; variant++)
		emit_made(variant & 1 ? 17 : 27, MACHINE_AMD64, variant, emit, arg);
}
