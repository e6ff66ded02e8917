#include "lib/goroutine_filter.h"

#include <string.h>

#include "lib/options.h"

#define MAX_INLINED 64

enum gospect_state state_of(enum goroutine_status status)
{
	switch (status) {
	case G_RUNNING:
	case G_COPYSTACK:
		return GOSPECT_RUNNING;
	case G_RUNNABLE:
	case G_PREEMPTED:
		return GOSPECT_RUNNABLE;
	case G_SYSCALL:
		return GOSPECT_SYSCALL;
	default:
		return GOSPECT_WAITING;
	}
}

const char *gospect_state_name(enum gospect_state state)
{
	static const char *const names[] = {"running", "runnable", "syscall", "waiting"};

	return (unsigned int)state <= GOSPECT_WAITING ? names[state] : "unknown";
}

static struct error *must_check make_regex(struct filter *f)
{
	char why[128];
	int failed = regcomp(&f->regex, f->want.function, REG_EXTENDED | REG_NOSUB);

	f->regex_made = !failed;
	if (!failed)
		return NULL;
	regerror(failed, &f->regex, why, sizeof(why));
	return error_format(ERROR_USAGE, "invalid regular expression '%s': %s", f->want.function,
			    why);
}

struct error *filter_init(struct filter *f, const struct gospect_filter *given)
{
	struct error *err;

	*f = (struct filter){0};
	err = options_take(given, &f->want, sizeof(f->want), "gospect_filter");
	if (!err && f->want.states >> (GOSPECT_WAITING + 1))
		err = error_format(ERROR_USAGE, "invalid state %u; see enum gospect_state",
				   f->want.states);
	if (!err && f->want.label && (!*f->want.label || *f->want.label == '='))
		err = error_format(ERROR_USAGE, "label '%s' has no key; use KEY or KEY=VALUE",
				   f->want.label);
	return !err && f->want.function ? make_regex(f) : err;
}

void filter_words(const struct filter *f, struct strbuf *sb)
{
	if (f->want.goroutine)
		strbuf_addf(sb, " --goid %lu", f->want.goroutine);
	for (unsigned int state = 0; state <= GOSPECT_WAITING; state++)
		if (f->want.states & 1u << state)
			strbuf_addf(sb, " --state %s", gospect_state_name(state));
	if (f->want.wait)
		strbuf_addf(sb, " --wait '%s'", f->want.wait);
	if (f->want.function)
		strbuf_addf(sb, " --func '%s'", f->want.function);
	if (f->want.label)
		strbuf_addf(sb, " --label '%s'", f->want.label);
}

/* Matches the full name if this Go version has such a reason, else a part of the name. */
static bool wait_matches(const struct filter *f, const struct goroutine_set *set, uint8_t reason)
{
	for (int i = 0; i < 256; i++)
		if (!strcasecmp(goroutine_set_wait_reason(set, i), f->want.wait))
			return !strcasecmp(goroutine_set_wait_reason(set, reason), f->want.wait);
	return strcasestr(goroutine_set_wait_reason(set, reason), f->want.wait) != NULL;
}

static bool label_matches(const struct filter *f, const struct label_sets *sets, uint32_t id)
{
	struct label_set set = label_sets_get(sets, id);
	const char *equals = strchr(f->want.label, '=');
	size_t n = equals ? (size_t)(equals - f->want.label) : strlen(f->want.label);

	for (uint32_t i = 0; i < set.count; i++) {
		const char *key = intern_get(&sets->strings, set.labels[i].key);
		const char *value = intern_get(&sets->strings, set.labels[i].value);

		if (!strncmp(key, f->want.label, n) && !key[n] &&
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

	if (f->want.goroutine && s->goid && f->want.goroutine != s->goid)
		return false;
	if (f->want.states && !(f->want.states >> state_of(s->status) & 1))
		return false;
	if (f->want.wait && (!waits || !wait_matches(f, set, s->wait_reason)))
		return false;
	if (f->want.label && !label_matches(f, goroutine_set_labels(set), s->labels))
		return false;
	return !f->want.function || stack_matches(f, img, set, s->stack);
}

void filter_release(struct filter *f)
{
	if (f->regex_made)
		regfree(&f->regex);
	map_release(&f->stacks);
	map_release(&f->pcs);
	*f = (struct filter){0};
}
