/*
 * speedscope's file format (speedscope.app/file-format-schema.json): "sampled" profiles whose
 * samples are stacks, root first, and whose weights are nanoseconds of wall time, or bytes; a
 * profile without either (a dump) has counts and the unit "none". Written piece by piece, so stacks
 * need no memory.
 *
 * If the recording's times are known, each state has a profile, whose samples are in the order of
 * their time. Otherwise there is one profile in no order.
 */
#include <inttypes.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "profile/json_text.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"
#include "profile/time_order.h"

#define ALL_STATES (-1)

struct speedscope {
	const struct profile *profile;
	const struct profile_symbols *symbols;
	struct time_order order;
	FILE *out;
};

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

static bool is_in(const struct speedscope *s, size_t piece, int state)
{
	uint32_t row = s->order.pieces[piece].row;

	return state == ALL_STATES || s->profile->samples[row].state == (enum profile_state)state;
}

static uint64_t sum_of(const struct speedscope *s, int state)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->order.count; i++)
		if (is_in(s, i, state))
			sum += s->order.pieces[i].value;
	return sum;
}

static struct error *write_stacks(const struct speedscope *s, int state)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	const char *separator = "\n[";
	struct error *err = NULL;

	fputs("\"samples\":[", s->out);
	for (size_t i = 0; i < s->order.count && !err; i++) {
		if (!is_in(s, i, state))
			continue;
		err = symbols_stack(s->symbols, &s->profile->samples[s->order.pieces[i].row],
				    &stack);
		fputs(separator, s->out);
		for (size_t j = stack.count; j-- > 0;)
			fprintf(s->out, "%" PRIu32 "%s", s->symbols->lines[stack.frames[j]],
				j ? "," : "");
		fputc(']', s->out);
		separator = ",\n[";
	}
	fputs("],\n", s->out);
	return err;
}

static void write_weights(const struct speedscope *s, int state)
{
	const char *separator = "";

	fputs("\"weights\":[", s->out);
	for (size_t i = 0; i < s->order.count; i++) {
		if (!is_in(s, i, state))
			continue;
		fprintf(s->out, "%s%" PRIu64, separator, s->order.pieces[i].value);
		separator = ",";
	}
	fputs("]", s->out);
}

static struct error *write_profile(const struct speedscope *s, const char *name, int state)
{
	struct error *err;

	fputs("{\"type\":\"sampled\",\"name\":", s->out);
	err = json_text_write(name, s->out);
	fprintf(s->out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n",
		s->profile->unit == PROFILE_BYTES ? "bytes"
		: s->order.timed                  ? "nanoseconds"
						  : "none",
		sum_of(s, state));
	if (!err)
		err = write_stacks(s, state);
	write_weights(s, state);
	fputc('}', s->out);
	return err;
}

static struct error *write_profiles(const struct speedscope *s, const char *name)
{
	const char *separator = "";
	struct error *err = NULL;

	if (!s->order.width_ns)
		return write_profile(s, name, ALL_STATES);
	for (int state = 0; state < PROFILE_STATES && !err; state++) {
		if (!sum_of(s, state))
			continue;
		fputs(separator, s->out);
		err = write_profile(s, profile_state_name(state), state);
		separator = ",\n";
	}
	return err;
}

static struct error *write_file(const struct speedscope *s)
{
	const char *name = s->profile->command ? s->profile->command : "";
	struct error *err;

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"gospect " GOSPECT_VERSION "\",\n\"activeProfileIndex\":0,\n\"name\":",
	      s->out);
	err = json_text_write(name, s->out);
	fputs(",\n", s->out);
	if (!err)
		err = write_frames(s->symbols, s->out);
	fputs("\"profiles\":[", s->out);
	if (!err)
		err = write_profiles(s, name);
	fputs("]}\n", s->out);
	return err;
}

static struct error *speedscope_write(const struct profile *p,
				      const struct profile_symbols *symbols, FILE *out)
{
	struct speedscope s = {.profile = p, .symbols = symbols, .out = out};
	struct error *err = time_order_make(p, &s.order);

	if (!err)
		err = write_file(&s);
	time_order_release(&s.order);
	return err;
}

const struct profile_format profile_format_speedscope = {
	.name = "speedscope",
	.write = speedscope_write,
};
