#include "cli/record_page.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/process_file.h"
#include "cli/record_targets.h"
#include "cli/terminal.h"

/* Limits: wait reasons and running functions in the summary, and names that are tried. */
enum { MAX_WAITS = 3, MAX_FUNCTIONS = 2, MAX_FILES = 1000 };

/* Adds the program's base name as a file name that a shell needs no quotes for: other characters
 * become '_'. */
static void add_name(struct strbuf *sb, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (const char *c = name; *c && sb->length < 64; c++) {
		bool plain = isalnum((unsigned char)*c) || *c == '_' || *c == '.' || *c == '-';

		strbuf_addc(sb, plain && (c > name || isalnum((unsigned char)*c)) ? *c : '_');
	}
	if (!sb->length)
		strbuf_adds(sb, "process");
}

/* Adds NAME-PID. */
static struct error *must_check add_process(struct strbuf *sb, pid_t pid)
{
	_cleanup_free_ char *file = NULL;
	struct error *err = process_file_name(pid, &file);

	if (err)
		return err;
	add_name(sb, file);
	strbuf_addf(sb, "-%d", pid);
	return NULL;
}

struct error *record_page_name(struct target_options *target, char **ret)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, path = STRBUF_INIT;
	struct error *err = NULL;

	if (record_targets_are_many(target))
		add_name(&name, target->follow ? target->follow : "processes");
	else if (target->command)
		add_name(&name, target->command[0]);
	else
		err = target_options_find(target);
	if (!err && target->pid)
		err = add_process(&name, target->pid);
	if (err)
		return err;
	for (int i = 1; i < MAX_FILES; i++) {
		strbuf_reset(&path);
		strbuf_adds(&path, name.data);
		if (i > 1)
			strbuf_addf(&path, "-%d", i);
		strbuf_adds(&path, ".html");
		if (path.failed)
			return &error_no_memory;
		if (access(path.data, F_OK))
			break;
	}
	*ret = strdup(path.data);
	return *ret ? NULL : &error_no_memory;
}

static int print_sentence(void *arg, const struct gospect_sentence *s)
{
	terminal_write_words(stdout, s->is_grave ? "* " : "  ", s->text, 2);
	return 0;
}

static int print_wait(void *arg, const struct gospect_group *g)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	size_t *left = arg;

	if (!*g->name || !g->all_ns)
		return 0;
	strbuf_addf(&line, "%5.1f %%  wait: %s", 100.0 * g->total_ns / g->all_ns, g->name);
	terminal_write_line(&line, stdout);
	return !--*left;
}

/* The functions with the most CPU time of their own, and their shares of all time in percent. */
struct busiest {
	char names[MAX_FUNCTIONS][256];
	double shares[MAX_FUNCTIONS];
};

static int note_busy(void *arg, const struct gospect_group *g)
{
	struct busiest *b = arg;
	uint64_t ns = g->self_ns < g->cpu_ns ? g->self_ns : g->cpu_ns;
	double share = g->all_ns ? 100.0 * ns / g->all_ns : 0;

	for (size_t i = 0; i < MAX_FUNCTIONS; i++) {
		if (*g->name == '[' || share <= b->shares[i])
			continue;
		for (size_t j = MAX_FUNCTIONS - 1; j > i; j--) {
			memcpy(b->names[j], b->names[j - 1], sizeof(b->names[j]));
			b->shares[j] = b->shares[j - 1];
		}
		snprintf(b->names[i], sizeof(b->names[i]), "%s", short_function(g->name));
		b->shares[i] = share;
		break;
	}
	return 0;
}

static void print_busiest(const struct busiest *b)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	for (size_t i = 0; i < MAX_FUNCTIONS && b->shares[i] > 0; i++) {
		strbuf_addf(&line, b->shares[i] < 1 ? "%5.2f %%  run:  %s" : "%5.1f %%  run:  %s",
			    b->shares[i], b->names[i]);
		terminal_write_line(&line, stdout);
	}
}

/* Prints a file URL (RFC 8089), which a terminal opens in a browser. */
static void print_url(const char *path)
{
	_cleanup_free_ char *whole = realpath(path, NULL);

	fputs("file://", stdout);
	for (const char *c = whole ? whole : path; *c; c++)
		if (isalnum((unsigned char)*c) || strchr("/-._~", *c))
			putchar(*c);
		else
			printf("%%%02X", (unsigned char)*c);
	putchar('\n');
}

struct error *record_page_say(const struct gospect_profile *profile, const char *path)
{
	size_t waits = MAX_WAITS;
	struct busiest busiest = {0};
	struct error *err =
		library_error(gospect_profile_stands_out(profile, print_sentence, NULL));

	if (!err)
		err = library_error(gospect_profile_groups(profile, GOSPECT_GROUP_WAIT, NULL,
							   print_wait, &waits));
	if (!err)
		err = library_error(gospect_profile_groups(profile, GOSPECT_GROUP_FUNCTION, NULL,
							   note_busy, &busiest));
	if (err)
		return err;
	print_busiest(&busiest);
	print_url(path);
	return NULL;
}
