/*
 * A plan of changes to a target, as plain bytes. The process that parsed the target's program and
 * has no privilege (hooks/) makes it. The process that has the privilege and parses nothing
 * (inject/surgeon.h) carries it out. The parsed program may have taken over the first, so every
 * number in a plan is hostile until plan_check() or survey_check() has checked it. There are no
 * pointers in it; addresses are the target's.
 *
 * A plan that is accepted may still do any harm to the target: it brings code that runs there. It
 * does none to the process that carries it out, and none to another process.
 */
#ifndef INJECT_PLAN_H
#define INJECT_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/code_page.h"
#include "inject/quiescence.h"
#include "inject/runtime_words.h"
#include "target/target.h"

/* The bytes of the program's file at a probe site, which may be restored. */
struct original {
	uint64_t address;
	uint8_t bytes[SITE_JUMP_BYTES];
};

/* Those of gospect's own probe sites, and those of a stale agent. */
#define ORIGINALS_MOST (2 * CODE_MAX_SITES)

struct originals {
	uint64_t count;
	struct original items[ORIGINALS_MOST];
};

/* Does nothing with one that is there already. false: there is no room. */
bool originals_add(struct originals *o, uint64_t address, const uint8_t *bytes);
bool originals_have(const struct originals *o, uint64_t address, const uint8_t *bytes);

/* Before anything is done: how threads of the target are made to do something. */
struct survey {
	uint64_t syscall; /* address of a system call and a return (inject/survey_code.h) */
	uint64_t restore; /* of sigreturn */
	struct runtime_words words;
	uint64_t original_count;
	struct original originals[CODE_MAX_SITES]; /* of a stale agent */
};

struct plan {
	uint64_t shared_bytes; /* of the memory that is shared with the agent */
	uint64_t slots_offset; /* in it: agent/abi.h */
	uint64_t slots;
	struct quiescence_functions functions;
	struct code_head head; /* without the fields that are known later: tracer, slots */
	/* Behind it: head.stub_bytes of code pages, which begin with room for the head, and the
	 * trampoline pages. */
	uint8_t pages[];
};

#define PLAN_MOST_BYTES \
	(sizeof(struct plan) + CODE_MAX_STUB_BYTES + CODE_TRAMPOLINE_PAGES * CODE_PAGE_BYTES)

/* Its instructions are there, as they have to be; its offsets are small. ERROR_CORRUPT,
 * ERROR_DENIED, ERROR_GONE. */
struct error *survey_check(struct target *t, const struct survey *survey) must_check;

/*
 * Checks a plan of `size` bytes. It may change only executable mappings of the target, and no two
 * probe sites overlap. It may map only at free addresses, with gospect's sizes; its jumps lead
 * there. ERROR_CORRUPT names the violation.
 */
struct error *plan_check(const struct plan *plan, size_t size,
			 const struct target_maps *maps) must_check;

/* With the trailing data, by the sizes in its head. */
static inline size_t plan_bytes(const struct code_head *head)
{
	return sizeof(struct plan) + head->stub_bytes +
	       code_trampoline_count(head) * CODE_PAGE_BYTES;
}

#endif
