#include "cli/filter.h"

#include <string.h>

#include "base/array.h"

#define MAX_INLINED 64

enum { KEY_STATE = 0x3000, KEY_WAIT, KEY_FUNC, KEY_LABEL };

static const struct argp_option options[] = {
	{"state", KEY_STATE, "STATE", 0,
	 "Only goroutines in this state: running, runnable, syscall or waiting", 3},
	{"wait", KEY_WAIT, "REASON", 0,
	 "Only those that wait for this reason, as the dump prints it ('chan receive', 'sleep') or "
	 "a part of it ('mutex')",
	 3},
	{"func", KEY_FUNC, "REGEX", 0,
	 "Only those with a function on their stack that matches (POSIX extended)", 3},
	{"label", KEY_LABEL, "KEY[=VALUE]", 0, "Only those that have this pprof label", 3},
	{"goid", 'g', "GOID", 0, "Only this goroutine", 3},
	{0}};

static bool known_state(const char *state)
{
	static const char *const names[] = {"running", "runnable", "syscall", "waiting"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(state, names[i]))
			return true;
	return false;
}

static error_t set_regex(struct filter *f, const char *text, struct argp_state *state)
{
	char why[128];
	int failed = regcomp(&f->regex, text, REG_EXTENDED | REG_NOSUB);

	if (failed) {
		regerror(failed, &f->regex, why, sizeof(why));
		return wrong_option(state, "--func '%s' is no regular expression: %s", text, why);
	}
	if (f->regex_made)
		regfree(&f->regex);
	f->regex_made = true;
	f->function = text;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct filter *f = state->input;

	switch (key) {
	case KEY_STATE:
		if (!known_state(arg))
			return wrong_option(state,
					    "--state '%s' is none of running, runnable, syscall, "
					    "waiting",
					    arg);
		f->state = arg;
		return 0;
	case KEY_WAIT:
		f->wait = arg;
		return 0;
	case KEY_FUNC:
		return f->regex_made ? wrong_option(state, "--func is given twice")
				     : set_regex(f, arg, state);
	case KEY_LABEL:
		if (!*arg || *arg == '=')
			return wrong_option(state, "--label '%s' has no key; give KEY or KEY=VALUE",
					    arg);
		f->label = arg;
		return 0;
	case 'g':
		if (!parse_id(arg, &f->goid))
			return wrong_option(state, "'%s' is no goroutine id", arg);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp filter_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

const char *filter_state_name(enum goroutine_status status)
{
	switch (status) {
	case G_RUNNING:
	case G_COPYSTACK:
		return "running";
	case G_SYSCALL:
		return "syscall";
	case G_RUNNABLE:
	case G_PREEMPTED:
		return "runnable";
	default:
		return "waiting";
	}
}

/* By its full name when there is such a reason in this Go version, else by a part of it. */
static bool wait_matches(const struct filter *f, const struct goroutine_set *set, uint8_t reason)
{
	for (int i = 0; i < 256; i++)
		if (!strcasecmp(goroutine_set_wait_reason(set, i), f->wait))
			return !strcasecmp(goroutine_set_wait_reason(set, reason), f->wait);
	return strcasestr(goroutine_set_wait_reason(set, reason), f->wait) != NULL;
}

static bool label_matches(const struct filter *f, const struct label_sets *sets, uint32_t id)
{
	struct label_set set = label_sets_get(sets, id);
	const char *equals = strchr(f->label, '=');
	size_t n = equals ? (size_t)(equals - f->label) : strlen(f->label);

	for (uint32_t i = 0; i < set.count; i++) {
		const char *key = intern_get(&sets->strings, set.labels[i].key);
		const char *value = intern_get(&sets->strings, set.labels[i].value);

		if (!strncmp(key, f->label, n) && !key[n] &&
		    (!equals || !strcmp(value, equals + 1)))
			return true;
	}
	return false;
}

static bool pc_matches(struct filter *f, const struct image *img, uint64_t pc)
{
	uint64_t *known = map_at(&f->pcs, pc);
	struct go_frame frames[MAX_INLINED];
	size_t n;

	if (known && *known)
		return *known == 2;
	n = pclntab_frames(&img->functions, pc, frames, MAX_INLINED);
	for (size_t i = 0; i < n; i++) {
		if (regexec(&f->regex, frames[i].function, 0, NULL, 0))
			continue;
		if (known)
			*known = 2;
		return true;
	}
	if (known)
		*known = 1;
	return false;
}

static bool stack_matches(struct filter *f, const struct image *img, struct goroutine_set *set,
			  uint32_t id)
{
	struct stack stack = stacks_get(goroutine_set_stacks(set), id);
	uint64_t *known = map_at(&f->stacks, id);
	bool found = false;

	if (known && *known)
		return *known == 2;
	for (uint32_t i = 0; i < stack.count && !found; i++)
		found = pc_matches(f, img, stack.pcs[i]);
	if (known)
		*known = found ? 2 : 1;
	return found;
}

bool filter_matches(struct filter *f, const struct filter_subject *s, struct goroutine_set *set,
		    const struct image *img)
{
	bool waits = s->status == G_WAITING || s->status == G_LEAKED;

	if (f->goid && s->goid && f->goid != s->goid)
		return false;
	if (f->state && strcmp(f->state, filter_state_name(s->status)))
		return false;
	if (f->wait && (!waits || !wait_matches(f, set, s->wait_reason)))
		return false;
	if (f->label && !label_matches(f, goroutine_set_labels(set), s->labels))
		return false;
	return !f->function || stack_matches(f, img, set, s->stack);
}

void filter_release(struct filter *f)
{
	if (f->regex_made)
		regfree(&f->regex);
	map_release(&f->stacks);
	map_release(&f->pcs);
	*f = (struct filter){0};
}
