#include "recorded_core.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "liar.h"

#define MAX_PATCHES 64

/* Pairs: a core, packed by zstd, and its program. */
static const char *const files[][2] = {FIXTURES};

#define FIXTURE_COUNT (sizeof(files) / sizeof(files[0]))

struct fixture {
	int fd; /* of the core, unpacked, which is written to */
	char core[32];
	const char *program;
	uint64_t size;
	struct target *t;
	struct image *img;
	struct golayout *lay;
};

struct patch {
	uint64_t at;
	uint64_t word;
};

static void write_unpacked(ZSTD_DCtx *zstd, ZSTD_inBuffer *in, int to)
{
	char block[65536];

	while (in->pos < in->size) {
		ZSTD_outBuffer out = {block, sizeof(block), 0};

		fuzz_require(!ZSTD_isError(ZSTD_decompressStream(zstd, &out, in)));
		fuzz_require(write(to, block, out.pos) == (ssize_t)out.pos);
	}
}

static int unpack_to_memory(const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("core", MFD_CLOEXEC);
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	char block[65536];
	ssize_t n;

	fuzz_require(from >= 0 && to >= 0 && zstd);
	while ((n = read(from, block, sizeof(block))) > 0)
		write_unpacked(zstd, &(ZSTD_inBuffer){block, n, 0}, to);
	ZSTD_freeDCtx(zstd);
	close(from);
	return to;
}

static struct fixture *fixture_of(size_t i)
{
	static struct fixture fixtures[FIXTURE_COUNT];
	struct fixture *f = &fixtures[i];
	struct stat st;
	bool starting;

	if (f->lay)
		return f;
	f->program = files[i][1];
	f->fd = unpack_to_memory(files[i][0]);
	snprintf(f->core, sizeof(f->core), "/proc/self/fd/%d", f->fd);
	fuzz_require(!fstat(f->fd, &st) && !target_open_core(f->core, f->program, &f->t));
	f->size = st.st_size;
	fuzz_require(!image_open(f->t, NULL, &f->img));
	fuzz_require(!golayout_open(f->img, f->t, &f->lay));
	fuzz_require(!golayout_validate(f->lay, f->img, f->t, &starting));
	return f;
}

/* Writes the words into the core file; what they replace is then in the patches. */
static void swap_words(const struct fixture *f, struct patch *patches, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		off_t at = patches[i].at % (f->size - 8) & ~7ull;
		uint64_t word = patches[i].word;

		fuzz_require(pread(f->fd, &patches[i].word, 8, at) == 8);
		fuzz_require(pwrite(f->fd, &word, 8, at) == 8);
	}
}

static void reverse(struct patch *patches, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct patch first = patches[i];

		patches[i] = patches[count - 1 - i];
		patches[count - 1 - i] = first;
	}
}

static void look_at_core(const struct fixture *f, recorded_core_look *look)
{
	_cleanup_target_ struct target *t = NULL;
	_cleanup_image_ struct image *img = NULL;
	_cleanup_golayout_ struct golayout *lay = NULL;

	if (error_dropped(target_open_core(f->core, f->program, &t)) ||
	    error_dropped(image_open(t, NULL, &img)) || error_dropped(golayout_open(img, t, &lay)))
		return;
	fuzz_accepted += look(t, img, lay);
}

static void look_at_patched(const struct fixture *f, const uint8_t *data, size_t size,
			    recorded_core_look *look)
{
	struct patch patches[MAX_PATCHES];
	size_t count = size / sizeof(patches[0]);

	count = count < MAX_PATCHES ? count : MAX_PATCHES;
	memcpy(patches, data, count * sizeof(patches[0]));
	swap_words(f, patches, count);
	look_at_core(f, look);
	reverse(patches, count);
	swap_words(f, patches, count);
}

void recorded_core_take(const uint8_t *data, size_t size, recorded_core_look *look,
			uint64_t most_reads)
{
	const struct fixture *f;
	struct liar liar;

	if (size < 8)
		return;
	f = fixture_of(data[0] % FIXTURE_COUNT);
	if (data[1] & 1) {
		look_at_patched(f, data + 8, size - 8, look);
		return;
	}
	liar_init(&liar, f->t, data + 8, size - 8);
	fuzz_accepted += look(&liar.base, f->img, f->lay);
	fuzz_require(liar.reads < most_reads);
}

void recorded_core_seeds(fuzz_emit *emit, void *arg)
{
	for (uint8_t i = 0; i < FIXTURE_COUNT; i++) {
		uint8_t seed[8 + 64 * 16] = {i};

		/* The first reads, of the wait reasons and of the list of goroutines, are true. */
		for (uint16_t k = 0; k < 64; k++) {
			uint16_t skip = k < 40 ? UINT16_MAX : 31 * k;

			memcpy(seed + 8 + 16 * k, &skip, sizeof(skip));
			seed[8 + 16 * k + 3] = k % 5;
			seed[8 + 16 * k + 8] = k;
		}
		emit(arg, seed, sizeof(seed));
		memset(seed + 8, 0, sizeof(seed) - 8);
		seed[1] = 1;
		emit(arg, seed, 8);
	}
}
