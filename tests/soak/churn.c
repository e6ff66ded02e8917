#include "churn.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* As in the program: leaves.go and lives.go. */
static const char *const leaves[] = {
	"main.leafChan",    "main.leafSleep", "main.leafMutex",  "main.leafSelect",
	"main.leafSyscall", "main.leafYield", "main.leafSpin",   "main.leafGrow",
	"main.leafNap",     "main.leafServe", "main.leafAnswer", "main.leafRest",
	"main.leafTake",    "main.leafGive",
};
enum { CHAN, SLEEP, MUTEX, SELECT, SERVE = 9, ANSWER, REST, TAKE, GIVE };
#define STIR 0x9e37u

/* Where a goroutine that waits for this reason may be. */
static const struct {
	const char *reason;
	unsigned int leaves;
} waits[] = {
	{"sleep", 1u << SLEEP | 1u << REST},
	{"select", 1u << SELECT},
	{"sync.Mutex.Lock", 1u << MUTEX},
	{"chan receive", 1u << CHAN | 1u << SELECT | 1u << SERVE | 1u << ANSWER},
	{"coroutine", 1u << TAKE | 1u << GIVE},
	{"chan send", 1u << SERVE | 1u << ANSWER},
};

/* The code of a function: a digit, a leaf, or none. */
enum { CODE_OTHER = 1, CODE_DIGIT = 2, CODE_LEAF = CODE_DIGIT + 16 };

struct spelled {
	uint8_t digits[CHURN_DEPTH]; /* outermost first */
	unsigned int count;
	int leaf; /* -1: none */
	const char *wrong;
};

static uint64_t code_of_name(const char *name)
{
	static const char node[] = "main.node", hex[] = "0123456789ABCDEF";
	size_t n = sizeof(node) - 1;

	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++)
		if (!strcmp(name, leaves[i]))
			return CODE_LEAF + i;
	if (!strncmp(name, node, n) && name[n] && !name[n + 1] && strchr(hex, name[n]))
		return CODE_DIGIT + (strchr(hex, name[n]) - hex);
	return CODE_OTHER;
}

static uint64_t code_of(struct churn *c, uint64_t pc)
{
	uint64_t *code = map_at(&c->codes, pc);
	struct go_func f;

	if (!code)
		abort();
	if (!*code)
		*code = !stack_pc_is_pseudo(pc) &&
					pclntab_find(c->functions, stack_pc_lookup(pc), &f)
				? code_of_name(f.name)
				: CODE_OTHER;
	return *code;
}

static void take(struct spelled *s, uint64_t code, bool *gap)
{
	if (code >= CODE_LEAF) {
		if (s->leaf >= 0 || s->count)
			s->wrong = "two leaves, or one in the middle";
		s->leaf = code - CODE_LEAF;
	} else if (code >= CODE_DIGIT) {
		if (*gap || s->count == CHURN_DEPTH)
			s->wrong = "too many frames, or others among them";
		else
			s->digits[s->count++] = code - CODE_DIGIT;
	} else {
		*gap = s->count || s->leaf >= 0;
	}
}

static struct spelled spell(struct churn *c, struct stack stack)
{
	struct spelled s = {.leaf = -1};
	bool gap = false;

	for (uint32_t i = 0; i < stack.count; i++)
		take(&s, code_of(c, stack.pcs[i]), &gap);
	for (unsigned int i = 0; i < s.count / 2; i++) {
		uint8_t swap = s.digits[i];

		s.digits[i] = s.digits[s.count - 1 - i];
		s.digits[s.count - 1 - i] = swap;
	}
	return s;
}

unsigned int churn_digits(struct churn *c, struct stack stack)
{
	return spell(c, stack).count;
}

static uint16_t number(const uint8_t *digits)
{
	return digits[0] << 12 | digits[1] << 8 | digits[2] << 4 | digits[3];
}

/* FNV-1a of 32 bits, folded, as the program computes it. */
static uint16_t checksum(uint16_t id, uint16_t round, uint16_t kind)
{
	const uint8_t bytes[] = {id, id >> 8, round, round >> 8, kind, kind >> 8};
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return (uint16_t)(hash >> 16) ^ (uint16_t)hash;
}

/* Whether the checksum's digits, as many as there are, are those of this kind. */
static bool sum_agrees(const struct spelled *s, unsigned int kind)
{
	uint16_t sum = checksum(number(s->digits), number(s->digits + 4), kind);

	for (unsigned int i = 8; i < s->count; i++)
		if (s->digits[i] != (sum >> (4 * (CHURN_DEPTH - 1 - i)) & 15))
			return false;
	return true;
}

static bool sum_is_right(const struct spelled *s)
{
	if (s->leaf >= 0)
		return sum_agrees(s, s->leaf);
	for (unsigned int kind = 0; kind < ARRAY_SIZE(leaves); kind++)
		if (sum_agrees(s, kind))
			return true;
	return false;
}

static bool wait_is_right(const struct spelled *s, const char *reason)
{
	for (size_t i = 0; s->leaf >= 0 && i < ARRAY_SIZE(waits); i++)
		if (!strcmp(waits[i].reason, reason))
			return waits[i].leaves & 1u << s->leaf;
	return true;
}

/* Undoes a multiplication by STIR, mod 2^16. */
static uint16_t unstir(uint16_t stirred)
{
	uint32_t inverse = STIR;

	for (int i = 0; i < 4; i++)
		inverse *= 2 - STIR * inverse;
	return stirred * inverse;
}

/* Rounds only go up while a goroutine lives. */
static bool round_is_right(struct churn *c, const struct spelled *s, uint64_t goid)
{
	uint16_t round = unstir(number(s->digits + 4));
	uint64_t *last = map_at(&c->rounds, goid);

	if (!last)
		abort();
	if (round < *last)
		return false;
	c->fresh += round > *last;
	*last = round;
	return true;
}

const char *churn_wrong(struct churn *c, struct stack stack, uint64_t goid, const char *wait_reason)
{
	struct spelled s = spell(c, stack);

	if (s.wrong || !s.count)
		return s.wrong;
	if (s.leaf >= 0 && s.count < CHURN_DEPTH)
		return "a leaf without all nodes";
	if (s.count >= 4 && number(s.digits) != (uint16_t)goid)
		return "another goroutine's frames";
	if (s.count > 8 && !sum_is_right(&s))
		return "a wrong checksum";
	if (s.count >= 8 && !round_is_right(c, &s, goid))
		return "an older round than before";
	return wait_is_right(&s, wait_reason) ? NULL : "a wait reason of another moment";
}

void churn_forget(struct churn *c)
{
	map_release(&c->rounds);
}

void churn_release(struct churn *c)
{
	map_release(&c->codes);
	map_release(&c->rounds);
}
