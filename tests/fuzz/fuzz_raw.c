/* The text of a raw dump, with the program's functions put into it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "dump/raw_dump.h"
#include "fuzz.h"
#include "image/image.h"
#include "made_program.h"

/* The same program for all. */
static const struct image *the_image(void)
{
	static struct image *img;
	struct made_program p = {.minor = 27, .machine = MACHINE_AMD64, .sections = true};
	char path[32];
	int fd;

	if (img)
		return img;
	made_program_init(&p);
	fd = bytes_to_fd(p.file.data, p.file.length);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fuzz_require(!error_dropped(image_open_file(path, &img)));
	close(fd);
	made_program_release(&p);
	return img;
}

/* Nothing but printable lines comes out. */
static void check_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		fuzz_require((unsigned char)text[i] >= ' ' || strchr("\n\t", text[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_dump_raw_ struct dump_raw raw = {0};
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out;

	if (!dump_raw_is(data, size) || error_dropped(dump_raw_read(data, size, &raw)))
		return 0;
	out = open_memstream(&text, &length);
	fuzz_accepted += !error_dropped(dump_raw_symbolize(&raw, the_image(), NULL, out));
	fclose(out);
	check_text(text, length);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	static const char *const seeds[] = {
		"gospect raw dump 1\nframes shown\n"
		"mapping 400000-500000 0 abababab /usr/bin/program\n"
		"mapping 7f0000000000-7f0000001000 1000 - /lib/library.so\n\n"
		"goroutine 1 [running]:\n\t0x401000 exact\n\t0x401010\n\t[running]\n"
		"created by 0x401020 in goroutine 1\n\n"
		"goroutine 7 [chan receive, 3 minutes] {\"key\": value}:\n\t0x401000\n",
		"gospect raw dump 1\nframes all\n\n"
		"3 goroutines [select]: 1, 2, 3\n\t[truncated]\n\t0x401000\ncreated by 0x401001\n",
	};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(*seeds); i++)
		emit(arg, seeds[i], strlen(seeds[i]));
}
