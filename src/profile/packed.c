#include "profile/packed.h"

#include "base/strbuf.h"

struct error *packed_begin(struct packed *p, FILE *out)
{
	*p = (struct packed){.out = out};
	p->deflate.next_out = p->bytes;
	p->deflate.avail_out = sizeof(p->bytes);
	return deflateInit(&p->deflate, Z_DEFAULT_COMPRESSION) == Z_OK ? NULL : &error_no_memory;
}

static void write_base64(const uint8_t *bytes, size_t size, FILE *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size; i += 3) {
		size_t left = size - i;
		uint32_t bits = bytes[i] << 16;

		bits |= left > 1 ? bytes[i + 1] << 8 : 0;
		bits |= left > 2 ? bytes[i + 2] : 0;
		fputc(digits[bits >> 18], out);
		fputc(digits[bits >> 12 & 63], out);
		fputc(left > 1 ? digits[bits >> 6 & 63] : '=', out);
		fputc(left > 2 ? digits[bits & 63] : '=', out);
	}
}

static void write_bytes(struct packed *p)
{
	write_base64(p->bytes, sizeof(p->bytes) - p->deflate.avail_out, p->out);
	p->deflate.next_out = p->bytes;
	p->deflate.avail_out = sizeof(p->bytes);
}

/* Compresses `numbers`. */
static void compress_numbers(struct packed *p, int flush)
{
	int status = Z_OK;

	p->deflate.next_in = p->numbers;
	p->deflate.avail_in = p->used;
	while (status == Z_OK && (p->deflate.avail_in || flush == Z_FINISH)) {
		status = deflate(&p->deflate, flush);
		if (!p->deflate.avail_out)
			write_bytes(p);
	}
	p->failed |= status != (flush == Z_FINISH ? Z_STREAM_END : Z_OK);
	p->used = 0;
}

void packed_add(struct packed *p, uint64_t number)
{
	if (sizeof(p->numbers) - p->used < UVARINT_MAX)
		compress_numbers(p, Z_NO_FLUSH);
	p->used += uvarint_put(p->numbers + p->used, number);
}

struct error *packed_end(struct packed *p)
{
	compress_numbers(p, Z_FINISH);
	write_bytes(p);
	deflateEnd(&p->deflate);
	return p->failed ? &error_no_memory : NULL;
}
