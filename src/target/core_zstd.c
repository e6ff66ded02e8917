/* Cores as systemd-coredump keeps them. Pages of zeros, of which a Go program's heap has many, stay
 * holes in the unpacked file. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "target/core.h"

#define PAGE 4096u
#define OUT_PAGES 256u
/* The most memory that a file may demand: 128 MB, zstd's own limit. A large file may demand more,
 * up to the 2 GB that `zstd --long=31` needs. */
#define WINDOW_LOG 27
#define MAX_WINDOW_LOG 31
#define WINDOW_PER_BYTE 1024
/* This share of the file system stays free. The rest is checked after so many bytes stored, or
 * sooner if it is small. */
#define ROOM_SHARE 20u
#define LOOK_AT_ROOM (16u << 20)

struct unpacker {
	ZSTD_DCtx *zstd;
	uint8_t *in;
	uint8_t *out; /* OUT_PAGES pages, filled before they are written */
	size_t filled;
	uint64_t size; /* written so far */
	uint64_t end;  /* the end of the core by its headers; 0: not yet known */
	uint64_t stored;
	uint64_t next_look; /* at the room that is left, when so much is stored */
	int fd;
	const char *folder;
	bool too_wide; /* it asks for more than window_log() */
};

static void unpacker_release(struct unpacker *u)
{
	ZSTD_freeDCtx(u->zstd);
	free(u->in);
	free(u->out);
	if (u->fd >= 0)
		close(u->fd);
}

static struct error *open_temporary(struct unpacker *u, const char *path)
{
	u->fd = door_temporary(&u->folder);
	if (u->fd >= 0)
		return NULL;
	return error_errno(
		ERROR_FAILED, errno,
		"cannot decompress %s into %s; set TMPDIR, or decompress it with `zstd -d`", path,
		u->folder);
}

/* The end of the file that begins with these bytes: its tables, and the bytes of its segments. If
 * there are too many segments for the header, the kernel stores their number behind all of them. */
static uint64_t declared_end(const uint8_t *bytes, size_t size)
{
	uint64_t end, last;
	Elf64_Ehdr h;

	if (size < sizeof(h))
		return size;
	memcpy(&h, bytes, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_phoff > size ||
	    (h.e_phnum != PN_XNUM && (size - h.e_phoff) / sizeof(Elf64_Phdr) < h.e_phnum))
		return size;
	end = h.e_phoff + (uint64_t)h.e_phnum * sizeof(Elf64_Phdr);
	if (!__builtin_add_overflow(h.e_shoff, (h.e_shnum + 1ull) * sizeof(Elf64_Shdr), &last) &&
	    h.e_shoff && last > end)
		end = last;
	for (size_t i = 0; h.e_phnum != PN_XNUM && i < h.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, bytes + h.e_phoff + i * sizeof(ph), sizeof(ph));
		if (!__builtin_add_overflow(ph.p_offset, ph.p_filesz, &last) && last > end)
			end = last;
	}
	return end;
}

/* Other processes use the directory as well. */
static struct error *must_check look_at_room(struct unpacker *u, const char *path)
{
	struct statvfs st;
	uint64_t keep, half;

	if (u->stored < u->next_look)
		return NULL;
	u->next_look = u->stored + LOOK_AT_ROOM;
	if (fstatvfs(u->fd, &st))
		return NULL;
	keep = st.f_blocks / ROOM_SHARE;
	if (st.f_bavail >= keep) {
		half = (st.f_bavail - keep) * st.f_frsize / 2;
		if (half < LOOK_AT_ROOM)
			u->next_look = u->stored + half;
		return NULL;
	}
	return error_format(
		ERROR_FAILED,
		"cannot decompress %s into %s: less than 1/%u of that disk would stay free; set "
		"TMPDIR to a directory with more space",
		path, u->folder, ROOM_SHARE);
}

static struct error *write_page(struct unpacker *u, const uint8_t *page, size_t size,
				const char *path)
{
	static const uint8_t zeros[PAGE];
	struct error *err = look_at_room(u, path);
	ssize_t n = size;

	if (err)
		return err;
	if (memcmp(page, zeros, size)) {
		n = pwrite(u->fd, page, size, u->size);
		u->stored += PAGE;
	}
	if (n < 0 || (size_t)n != size)
		return error_errno(
			ERROR_FAILED, n < 0 ? errno : ENOSPC,
			"cannot decompress %s into %s; set TMPDIR to a directory with more space",
			path, u->folder);
	u->size += size;
	return NULL;
}

static struct error *flush_out(struct unpacker *u, const char *path)
{
	struct error *err = NULL;

	if (!u->end)
		u->end = declared_end(u->out, u->filled);
	if (u->filled > u->end - u->size)
		u->filled = u->end - u->size;
	for (size_t at = 0; !err && at < u->filled; at += PAGE)
		err = write_page(u, u->out + at, u->filled - at < PAGE ? u->filled - at : PAGE,
				 path);
	u->filled = 0;
	return err;
}

/* Whether all parts that the headers name are there: the rest is not part of the core, and may have
 * no end. */
static bool is_whole(const struct unpacker *u)
{
	return u->end && u->size >= u->end;
}

/* Decompresses the bytes read; *ret_rest: 0 when a frame ended there. */
static struct error *unpack_piece(struct unpacker *u, ZSTD_inBuffer *in, const char *path,
				  size_t *ret_rest)
{
	while (!is_whole(u) && (in->pos < in->size || u->filled == OUT_PAGES * PAGE)) {
		ZSTD_outBuffer out = {u->out, OUT_PAGES * PAGE, u->filled};
		struct error *err;

		*ret_rest = ZSTD_decompressStream(u->zstd, &out, in);
		u->filled = out.pos;
		if (ZSTD_isError(*ret_rest)) {
			u->too_wide = ZSTD_getErrorCode(*ret_rest) ==
				      ZSTD_error_frameParameter_windowTooLarge;
			return NULL;
		}
		if (u->filled < OUT_PAGES * PAGE)
			continue;
		err = flush_out(u, path);
		if (err)
			return err;
	}
	return NULL;
}

static struct error *unpack_all(struct unpacker *u, int fd, const char *path, bool *ret_cut)
{
	size_t room = ZSTD_DStreamInSize(), rest = 0;
	off_t at = 0;
	ssize_t n;

	while (!ZSTD_isError(rest) && !is_whole(u) && (n = pread(fd, u->in, room, at)) > 0) {
		ZSTD_inBuffer in = {u->in, n, 0};
		struct error *err = unpack_piece(u, &in, path, &rest);

		if (err)
			return err;
		at += n;
	}
	*ret_cut = rest != 0 && !is_whole(u);
	return flush_out(u, path);
}

static int window_log(int fd)
{
	struct stat st;
	int log = WINDOW_LOG;

	while (!fstat(fd, &st) && log < MAX_WINDOW_LOG && st.st_size * WINDOW_PER_BYTE > 1l << log)
		log++;
	return log;
}

static bool is_zstd(int fd)
{
	static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
	uint8_t found[sizeof(magic)];

	return pread(fd, found, sizeof(found), 0) == sizeof(found) &&
	       !memcmp(found, magic, sizeof(magic));
}

struct error *core_unpack(int fd, const char *path, int *ret_fd, bool *ret_cut)
{
	__attribute__((cleanup(unpacker_release))) struct unpacker u = {.fd = -1};
	struct error *err;

	*ret_fd = fd;
	*ret_cut = false;
	if (!is_zstd(fd))
		return NULL;
	u.zstd = ZSTD_createDCtx();
	u.in = malloc(ZSTD_DStreamInSize());
	u.out = malloc(OUT_PAGES * PAGE);
	if (!u.zstd || !u.in || !u.out ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(u.zstd, ZSTD_d_windowLogMax, window_log(fd))))
		return &error_no_memory;
	err = open_temporary(&u, path);
	if (!err)
		err = unpack_all(&u, fd, path, ret_cut);
	if (!err && u.too_wide)
		err = error_format(
			ERROR_UNSUPPORTED,
			"%s needs more memory to decompress than its size justifies; if you trust "
			"it, decompress it with `zstd -d --long=31`",
			path);
	if (!err && ftruncate(u.fd, u.size))
		err = error_errno(ERROR_FAILED, errno, "cannot decompress %s into %s", path,
				  u.folder);
	if (err)
		return err;
	*ret_fd = u.fd;
	u.fd = -1;
	return NULL;
}
