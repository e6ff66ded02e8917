#include "top/go_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "profile/awaiting.h"
#include "sample/wall.h"

#define MAX_INLINED 64
/* What waits for work waits near its start; see profile/awaiting.h. */
#define MAX_AWAITING_DEPTH 64

struct go_names_stack {
	size_t first;
	uint32_t count;
	uint32_t place;
	enum request_place request;
	/* The last query about it, + 1: status and wait reason. A stack rarely has several. */
	uint32_t asked;
	bool awaits_work;
};

static bool is_among(const uint32_t *names, size_t count, uint32_t name)
{
	for (size_t i = 0; i < count; i++)
		if (names[i] == name)
			return true;
	return false;
}

/* The function of a frame, after those of the stack that begins at `first`. */
static struct error *add_function(struct go_names *n, size_t first, const char *function)
{
	uint32_t name = utf8_intern(&n->names.text, function, strlen(function));

	if (name == INTERN_FAILED ||
	    !array_reserve(&n->functions, &n->function_capacity, n->function_count + 1))
		return &error_no_memory;
	if (!is_among(n->functions + first, n->function_count - first, name))
		n->functions[n->function_count++] = name;
	return NULL;
}

static const char *name_of(const struct go_names *n, size_t function)
{
	return intern_get(&n->names.text, n->functions[function]);
}

/* The innermost function that says where the goroutine is. */
static uint32_t place_of(const struct go_names *n, size_t first)
{
	for (size_t i = first; i < n->function_count; i++)
		if (!is_plumbing(name_of(n, i)) && *name_of(n, i) != '[')
			return n->functions[i];
	return first < n->function_count ? n->functions[first] : 0;
}

/* A connection's goroutine that waits for the first bytes of a request is between two requests. */
static enum request_place request_place(const struct go_names *n, size_t first)
{
	bool serves = false, reads = false;

	for (size_t i = first; i < n->function_count; i++) {
		const char *name = name_of(n, i);

		if (is_request_entry(name))
			return REQUEST_WITHIN;
		if (!strncmp(name, "[running]", 9) || !strcmp(name, "[unknown]"))
			return REQUEST_UNKNOWN;
		serves |= !strcmp(name, "net/http.(*conn).serve");
		reads |= !strcmp(name, "bufio.(*Reader).Peek") ||
			 !strcmp(name, "net/http.(*conn).readRequest");
	}
	return !serves ? REQUEST_NOT : reads ? REQUEST_BETWEEN : REQUEST_UNKNOWN;
}

static struct stack stack_of(const struct go_names *n, uint32_t id)
{
	return stacks_get(goroutine_set_stacks(wall_sampler_set(n->sampler)), id);
}

/* The wrapper of a go statement is visible when its callee is unknown: this finds the function that
 * it calls. */
static void unwrap(const struct go_names *n, struct go_frame *frame)
{
	uint64_t entry = frame->wrapper ? pclntab_wrapped(n->code.functions, frame->entry) : 0;
	struct go_func f;

	if (entry && entry != frame->entry && pclntab_find(n->code.functions, entry, &f))
		*frame = (struct go_frame){.function = f.name, .entry = entry};
}

/* Calls for each visible frame, innermost first. */
static struct error *each_frame(const struct go_names *n, struct stack stack,
				struct error *(*call)(void *, const struct go_frame *), void *arg)
{
	struct go_frame frames[MAX_INLINED], callee;
	struct error *err = NULL;
	bool has_callee = false;

	for (uint32_t i = 0; !err && i < stack.count; i++) {
		size_t count = code_frames(&n->code, stack.pcs[i], frames, MAX_INLINED);

		for (size_t k = 0; !err && k < count; k++) {
			bool hidden = go_frame_hidden(&frames[k], has_callee ? &callee : NULL) ||
				      !strcmp(frames[k].function, "runtime.goexit");

			callee = frames[k];
			has_callee = true;
			if (hidden)
				continue;
			unwrap(n, &frames[k]);
			err = call(arg, &frames[k]);
		}
	}
	return err;
}

/* The stack of a goroutine in state running is known from CPU samples alone. */
static const char *shown_name(const struct go_names *n, const char *function)
{
	if (strcmp(function, "[running]") != 0)
		return function;
	return n->no_cpu_samples ? "[running] where: not known without CPU samples (gospect doctor)"
				 : "[running] where: not known, too short for a CPU sample";
}

struct stack_walk {
	struct go_names *names;
	size_t first;
};

static struct error *take_frame(void *arg, const struct go_frame *frame)
{
	struct stack_walk *walk = arg;

	return add_function(walk->names, walk->first, shown_name(walk->names, frame->function));
}

static struct error *learn_stack(struct go_names *n, uint32_t id)
{
	struct stack_walk walk = {n, n->function_count};
	struct error *err = each_frame(n, stack_of(n, id), take_frame, &walk);

	if (!err && n->function_count == walk.first)
		err = add_function(n, walk.first, "[unknown]");
	if (!err && !array_reserve(&n->known, &n->known_capacity, n->known_count + 1))
		err = &error_no_memory;
	if (err)
		return err;
	n->known[n->known_count++] =
		(struct go_names_stack){.first = walk.first,
					.count = n->function_count - walk.first,
					.place = place_of(n, walk.first),
					.request = request_place(n, walk.first)};
	return NULL;
}

static struct error *known_stack(struct go_names *n, uint32_t id, struct go_names_stack **ret)
{
	uint64_t *place = map_at(&n->stacks, id);
	struct error *err = place ? NULL : &error_no_memory;

	if (!err && !*place) {
		err = learn_stack(n, id);
		*place = err ? 0 : n->known_count;
	}
	if (!err)
		*ret = &n->known[*place - 1];
	return err;
}

static struct error *name_stack(struct top_names *names, uint32_t id, struct top_stack_names *ret)
{
	struct go_names *n = (struct go_names *)names;
	struct go_names_stack *known;
	struct error *err = known_stack(n, id, &known);

	if (!err)
		*ret = (struct top_stack_names){n->functions + known->first, known->count,
						known->place, known->request};
	return err;
}

static bool key_awaits_work(const struct go_names *n, const struct go_names_stack *known,
			    const struct top_key *key)
{
	const char *functions[MAX_AWAITING_DEPTH];

	if (known->count > MAX_AWAITING_DEPTH)
		return false;
	for (size_t i = 0; i < known->count; i++)
		functions[i] = name_of(n, known->first + i);
	return awaits_work((enum profile_state)top_state_of(key->status),
			   goroutine_set_wait_reason(wall_sampler_set(n->sampler),
						     key->wait_reason),
			   functions, known->count);
}

static bool goroutine_awaits_work(struct top_names *names, const struct top_key *key)
{
	struct go_names *n = (struct go_names *)names;
	uint32_t question = 1 + (key->status << 8 | key->wait_reason);
	struct go_names_stack *known = NULL;

	if (error_dropped(known_stack(n, key->stack, &known)))
		return false;
	if (known->asked != question) {
		known->awaits_work = key_awaits_work(n, known, key);
		known->asked = question;
	}
	return known->awaits_work;
}

static uint32_t creator_name(struct go_names *n, uint32_t creator)
{
	uint64_t pc = wall_sampler_creator(n->sampler, creator);
	struct go_frame frames[MAX_INLINED];

	if (!pc)
		return intern_string(&n->names.text, "(not known)");
	if (!code_frames(&n->code, pc, frames, MAX_INLINED))
		return intern_string(&n->names.text, "[unknown]");
	/* The creator of the first goroutine: the runtime's own start calls newproc (rt0_go, Go
	 * 1.27, runtime/asm_amd64.s). */
	if (!strcmp(frames[0].function, "runtime.newproc") ||
	    !strncmp(frames[0].function, "runtime.rt0_go", strlen("runtime.rt0_go")))
		return intern_string(&n->names.text, "(program start)");
	return utf8_intern(&n->names.text, frames[0].function, strlen(frames[0].function));
}

static uint32_t name_creator(struct top_names *names, uint32_t creator)
{
	struct go_names *n = (struct go_names *)names;
	uint64_t *place = map_at(&n->creators, creator);
	uint32_t name;

	if (place && *place)
		return *place - 1;
	name = creator_name(n, creator);
	if (!place || name == INTERN_FAILED)
		return INTERN_FAILED;
	*place = name + 1ull;
	return name;
}

static uint32_t label_name(struct go_names *n, const struct label *label)
{
	const struct label_sets *sets = goroutine_set_labels(wall_sampler_set(n->sampler));
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, intern_get(&sets->strings, label->key));
	strbuf_addc(&sb, '=');
	strbuf_adds(&sb, intern_get(&sets->strings, label->value));
	return sb.failed ? INTERN_FAILED : utf8_intern(&n->names.text, sb.data, sb.length);
}

static struct error *learn_labels(struct go_names *n, uint32_t id)
{
	const struct label_sets *sets = goroutine_set_labels(wall_sampler_set(n->sampler));
	struct label_set set = label_sets_get(sets, id);
	uint32_t count = set.count < TOP_MAX_LABELS ? set.count : TOP_MAX_LABELS;
	size_t at = n->label_count;

	if (!array_reserve(&n->label_names, &n->label_capacity, at + 1 + count))
		return &error_no_memory;
	n->label_names[at] = count;
	for (uint32_t i = 0; i < count; i++) {
		n->label_names[at + 1 + i] = label_name(n, &set.labels[i]);
		if (n->label_names[at + 1 + i] == INTERN_FAILED)
			return &error_no_memory;
	}
	n->label_count = at + 1 + count;
	return NULL;
}

static struct error *name_labels(struct top_names *names, uint32_t id, uint32_t *ret,
				 uint32_t *ret_count)
{
	struct go_names *n = (struct go_names *)names;
	uint64_t *place = map_at(&n->labels, id);
	size_t at = n->label_count;
	struct error *err = place ? NULL : &error_no_memory;

	if (!err && !*place) {
		err = learn_labels(n, id);
		*place = err ? 0 : at + 1;
	}
	if (err)
		return err;
	at = *place - 1;
	*ret_count = n->label_names[at];
	memcpy(ret, &n->label_names[at + 1], *ret_count * sizeof(*ret));
	return NULL;
}

static const char *name_reason(struct top_names *names, uint8_t reason)
{
	struct go_names *n = (struct go_names *)names;

	return goroutine_set_wait_reason(wall_sampler_set(n->sampler), reason);
}

static struct error *describe_frame(void *arg, const struct go_frame *frame)
{
	struct strbuf *sb = arg;

	strbuf_addf(sb, "%s\n", frame->function);
	if (frame->file && *frame->file && frame->line)
		strbuf_addf(sb, "    %s:%d\n", frame->file, frame->line);
	return NULL;
}

static void describe_stack(struct top_names *names, uint32_t id, struct strbuf *ret)
{
	struct go_names *n = (struct go_names *)names;

	if (error_dropped(each_frame(n, stack_of(n, id), describe_frame, ret)))
		ret->failed = true;
}

void go_names_init(struct go_names *n, struct wall_sampler *sampler, const struct code *code)
{
	*n = (struct go_names){
		.names = {.stack = name_stack,
			  .creator = name_creator,
			  .labels = name_labels,
			  .awaits_work = goroutine_awaits_work,
			  .wait_reason = name_reason,
			  .describe = describe_stack},
		.sampler = sampler,
		.code = *code,
	};
}

void go_names_release(struct go_names *n)
{
	intern_release(&n->names.text);
	map_release(&n->stacks);
	map_release(&n->creators);
	map_release(&n->labels);
	free(n->known);
	free(n->functions);
	free(n->label_names);
}
