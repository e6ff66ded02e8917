#include "image/frame_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/amd64.h"
#include "image/arm64.h"

/* Longer functions are not decoded. */
#define MAX_SIZE (1u << 20)

struct scan {
	const struct go_func *function;
	uint64_t at; /* the address behind the instruction */
	struct record_place place;
	bool has_record; /* the function makes one */
	bool jumped;     /* execution does not continue behind the instruction */
};

/* The owner of the value that is loaded into RBP. */
static enum record_owner owner_amd64(const struct scan *s, const struct amd64_insn *insn)
{
	if (amd64_is_pop(insn))
		return RECORD_CALLERS;
	if (amd64_is_lea(insn) && insn->base == MODRM_RSP)
		return insn->displacement < 0 ? RECORD_AHEAD : RECORD_OWN;
	if (amd64_is_load(insn) && insn->base == MODRM_RBP && s->place.owner == RECORD_AHEAD)
		return RECORD_OWN;
	if (amd64_is_copy_of(insn, MODRM_RSP))
		return RECORD_OWN;
	return amd64_is_load(insn) && insn->base == MODRM_RSP ? RECORD_CALLERS : RECORD_UNKNOWN;
}

/* The distance of SP from the frame's start, behind the instruction. */
static int32_t delta_behind(const struct scan *s)
{
	return pclntab_sp_delta(s->function, s->at);
}

/* Visits the instruction at s->at; false: it cannot be decoded. */
static bool visit_amd64(struct scan *s, const uint8_t *code, size_t size)
{
	struct amd64_insn insn;

	if (!amd64_decode(code, size, &insn))
		return false;
	s->at += insn.length;
	s->jumped = amd64_is_jump(&insn);
	if (amd64_written(&insn) == MODRM_RBP)
		s->place.owner = owner_amd64(s, &insn);
	return true;
}

/* SUB $8, RSP, R29: the owner depends on whether SP was restored already. SUB $24 makes the record
 * of the next call. */
static enum record_owner owner_arm64(const struct scan *s, uint32_t insn)
{
	uint64_t constant;
	uint32_t base;

	if (!arm64_sub(insn, &base, &constant) || base != ARM64_SP)
		return arm64_is_load_from_sp(insn) ? RECORD_CALLERS : RECORD_UNKNOWN;
	if (constant > 8)
		return RECORD_AHEAD;
	return delta_behind(s) > 0 ? RECORD_OWN : RECORD_CALLERS;
}

static bool visit_arm64(struct scan *s, const uint8_t *code, size_t size)
{
	uint32_t insn, written;

	if (size < sizeof(insn))
		return false;
	memcpy(&insn, code, sizeof(insn));
	if (!arm64_is_instruction(insn))
		return false;
	s->at += sizeof(insn);
	written = arm64_written(insn);
	s->jumped = arm64_is_jump(insn);
	if (arm64_is_call(insn))
		s->place.lr_is_caller = false;
	if (written >> ARM64_LR & 1)
		s->place.lr_is_caller = arm64_is_load_from_sp(insn);
	if (written >> ARM64_FP & 1)
		s->place.owner = owner_arm64(s, insn);
	return true;
}

/* Code behind a jump belongs to another path through the function. */
static struct record_place place_behind_jump(const struct scan *s)
{
	int32_t delta = delta_behind(s);

	return (struct record_place){
		.owner = delta > 0 && s->has_record ? RECORD_OWN : RECORD_CALLERS,
		.lr_is_caller = delta <= 0,
	};
}

static bool add_change(struct frame_records *r, uint64_t address, struct record_place place)
{
	if (!array_reserve(&r->changes, &r->capacity, r->count + 1))
		return false;
	r->changes[r->count++] = (struct record_change){address, place};
	return true;
}

static bool same_place(struct record_place a, struct record_place b)
{
	return a.owner == b.owner && a.lr_is_caller == b.lr_is_caller;
}

/* False when there is no memory. */
static bool scan_function(struct scan *s, const struct image *img, struct frame_records *r)
{
	const struct go_func *f = s->function;
	const uint8_t *code = image_bytes(img, f->entry, f->end - f->entry);
	bool (*visit)(struct scan * s, const uint8_t *code, size_t size) =
		img->machine == MACHINE_AMD64 ? visit_amd64 : visit_arm64;
	struct record_place before = s->place;

	if (!code)
		return true;
	if (!add_change(r, f->entry, s->place))
		return false;
	while (s->at < f->end && visit(s, code + (s->at - f->entry), f->end - s->at)) {
		s->has_record |= s->place.owner == RECORD_OWN;
		if (s->jumped)
			s->place = place_behind_jump(s);
		if (!same_place(before, s->place) && !add_change(r, s->at, s->place))
			return false;
		before = s->place;
	}
	return true;
}

/* Their callers make a record for them. (Assembly callers do not, but exist only in the runtime's
 * own tests.) */
static bool is_duff(const char *name)
{
	return !strcmp(name, "runtime.duffcopy") || !strcmp(name, "runtime.duffzero");
}

/* Adds the function's changes of owner. Behind the decoded part the owner is unknown. */
static bool add_function(struct frame_records *r, const struct image *img, const struct go_func *f)
{
	static const struct record_place own = {.owner = RECORD_OWN},
					 unknown = {.owner = RECORD_UNKNOWN};
	struct scan s = {
		.function = f,
		.at = f->entry,
		.place = {.owner = RECORD_CALLERS, .lr_is_caller = true},
	};
	bool done = true;

	if (f->flags & FUNC_TOPFRAME || is_duff(f->name))
		done = add_change(r, f->entry, own);
	else if (f->end - f->entry > MAX_SIZE)
		done = add_change(r, f->entry, unknown);
	else
		done = scan_function(&s, img, r);
	return done && add_change(r, f->end, unknown);
}

struct error *frame_records_at(struct frame_records *r, const struct image *img, uint16_t number,
			       uint64_t pc, struct record_place *ret)
{
	struct go_func f;
	uint64_t *first;
	size_t i;

	*ret = (struct record_place){.owner = RECORD_UNKNOWN};
	if (!pclntab_find(&img->functions, pc, &f))
		return NULL;
	first = map_at(&r->functions, (uint64_t)number << 48 | f.entry);
	if (!first)
		return &error_no_memory;
	if (!*first) {
		*first = r->count + 1;
		if (!add_function(r, img, &f))
			return &error_no_memory;
	}
	for (i = *first - 1; r->changes[i].address <= pc && pc < f.end; i++)
		*ret = r->changes[i].place;
	return NULL;
}

struct error *frame_records_function(struct frame_records *r, const struct image *img,
				     const struct go_func *f)
{
	r->count = 0;
	return add_function(r, img, f) ? NULL : &error_no_memory;
}

void frame_records_release(struct frame_records *r)
{
	map_release(&r->functions);
	free(r->changes);
	*r = (struct frame_records){0};
}
