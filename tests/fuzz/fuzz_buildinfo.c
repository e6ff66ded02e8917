/* A program's file: its ELF headers, build information, and the version without them. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "image/image.h"
#include "image/version.h"
#include "made_program.h"

static bool is_data(void *arg, uint64_t place, uint64_t address)
{
	return address == PROGRAM_DATA;
}

static void ask(struct image *img)
{
	const char *build_id = elf_file_build_id(img->elf);
	char *setting = buildinfo_setting(&img->info, "CGO_ENABLED");
	const struct elf_segment *segments;
	size_t rest;

	free(setting);
	fuzz_require(strlen(build_id) < ELF_BUILD_ID_SIZE && img->info.version &&
		     img->info.modinfo);
	fuzz_require(img->info.minor >= -1 && img->info.minor < 10000);
	for (size_t i = 0; i < elf_file_segments(img->elf, &segments); i++) {
		const uint8_t *bytes = elf_file_rest(img->elf, segments[i].address, &rest);

		fuzz_require(!bytes == !rest);
		if (bytes)
			fuzz_require((volatile uint8_t *)bytes + rest - 1);
	}
	elf_file_symbol(img->elf, "runtime.buildVersion");
	elf_file_each_relocation(img->elf, is_data, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_image_ struct image *img = NULL;
	char path[32], build_id[ELF_BUILD_ID_SIZE];
	int fd = bytes_to_fd(data, size);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!error_dropped(image_open_file(path, &img))) {
		fuzz_accepted += img->info.minor >= 17;
		ask(img);
		buildinfo_release(&img->info);
		if (!error_dropped(version_recover(img)))
			ask(img);
	}
	close(fd);
	elf_bytes_build_id(data, size, build_id);
	fuzz_require(memchr(build_id, 0, sizeof(build_id)));
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (int i = 0; i < 16; i++) {
		struct made_program p = {
			.minor = i & 1 ? 17 : 27,
			.machine = i & 2 ? MACHINE_ARM64 : MACHINE_AMD64,
			.sections = i & 4,
			.pointers = i & 1,
			.pie = i & 8,
		};

		made_program_init(&p);
		emit(arg, p.file.data, p.file.length);
		made_program_release(&p);
	}
}
