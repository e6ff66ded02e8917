/*
 * speedscope's file format (speedscope.app/file-format-schema.json): one "sampled" profile whose
 * samples are stacks, root first, and whose weights are nanoseconds of wall time; a profile without
 * time (a dump) has counts and the unit "none". Written piece by piece, so stacks need no memory.
 */
#include <inttypes.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "profile/json_text.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"

static struct error *write_frame(const struct profile_symbols *symbols,
				 const struct source_line *line, FILE *out)
{
	struct error *err;

	fputs("{\"name\":", out);
	err = json_text_write(intern_get(&symbols->strings, line->function), out);
	if (!err && line->file) {
		fputs(",\"file\":", out);
		err = json_text_write(intern_get(&symbols->strings, line->file), out);
	}
	if (line->line)
		fprintf(out, ",\"line\":%" PRIu32, line->line);
	fputc('}', out);
	return err;
}

static struct error *write_frames(const struct profile_symbols *symbols, FILE *out)
{
	struct error *err = NULL;

	fputs("\"shared\":{\"frames\":[", out);
	for (size_t i = 0; i < symbols->source_line_count && !err; i++) {
		fputs(i ? ",\n" : "\n", out);
		err = write_frame(symbols, &symbols->source_lines[i], out);
	}
	fputs("]},\n", out);
	return err;
}

static struct error *write_stacks(const struct profile *p, const struct profile_symbols *symbols,
				  FILE *out)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	struct error *err = NULL;

	fputs("\"samples\":[", out);
	for (size_t i = 0; i < p->count && !err; i++) {
		err = symbols_stack_of_program(symbols, &p->samples[i], &stack);
		fputs(i ? ",\n[" : "\n[", out);
		for (size_t j = stack.count; j-- > 0;)
			fprintf(out, "%" PRIu32 "%s", symbols->lines[stack.frames[j]],
				j ? "," : "");
		fputc(']', out);
	}
	fputs("],\n", out);
	return err;
}

static void write_weights(const struct profile *p, bool timed, FILE *out)
{
	fputs("\"weights\":[", out);
	for (size_t i = 0; i < p->count; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "",
			timed ? p->samples[i].wall_ns : p->samples[i].count);
	fputs("]", out);
}

static struct error *speedscope_write(const struct profile *p,
				      const struct profile_symbols *symbols, FILE *out)
{
	const char *name = p->command ? p->command : "";
	uint64_t count, wall;
	struct error *err;

	profile_totals(p, &count, &wall);
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"gospect " GOSPECT_VERSION "\",\n\"activeProfileIndex\":0,\n\"name\":",
	      out);
	err = json_text_write(name, out);
	fputs(",\n", out);
	if (!err)
		err = write_frames(symbols, out);
	if (err)
		return err;
	fputs("\"profiles\":[{\"type\":\"sampled\",\"name\":", out);
	err = json_text_write(name, out);
	fprintf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n",
		wall ? "nanoseconds" : "none", wall ? wall : count);
	if (!err)
		err = write_stacks(p, symbols, out);
	if (err)
		return err;
	write_weights(p, wall != 0, out);
	fputs("}]}\n", out);
	return NULL;
}

const struct profile_format profile_format_speedscope = {
	.name = "speedscope",
	.write = speedscope_write,
};
