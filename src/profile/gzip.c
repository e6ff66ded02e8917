#include "profile/gzip.h"

/* zlib's window of 2^15 bytes, and 16 for the gzip format. */
#define GZIP_WINDOW_BITS (15 + 16)
#define GZIP_MEMORY_LEVEL 8

struct error *gzip_open(struct gzip *gz, FILE *out)
{
	*gz = (struct gzip){.out = out};
	if (deflateInit2(&gz->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS,
			 GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return &error_no_memory;
	return NULL;
}

static void deflate_all(struct gzip *gz, int flush)
{
	unsigned char buffer[64 << 10];

	do {
		gz->stream.next_out = buffer;
		gz->stream.avail_out = sizeof(buffer);
		deflate(&gz->stream, flush);
		fwrite(buffer, 1, sizeof(buffer) - gz->stream.avail_out, gz->out);
	} while (!gz->stream.avail_out);
}

void gzip_write(struct gzip *gz, const void *bytes, size_t size)
{
	gz->stream.next_in = (void *)bytes;
	gz->stream.avail_in = size;
	deflate_all(gz, Z_NO_FLUSH);
}

void gzip_close(struct gzip *gz)
{
	gz->stream.avail_in = 0;
	deflate_all(gz, Z_FINISH);
	deflateEnd(&gz->stream);
}
