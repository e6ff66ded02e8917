#include "hooks/take_snapshot.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "hooks/survey.h"
#include "target/memory_snapshot.h"

struct memory_snapshot_taken {
	struct target *t;
	struct surgeon *surgeon;
	bool entered;
	struct snapshot_result result;
};

struct error *memory_snapshot_expect(const struct surgeon_line *line,
				     struct snapshot_expectation *ret)
{
	struct surgeon_request r = {.operation = SURGEON_EXPECT_SNAPSHOT};
	struct surgeon *surgeon;
	struct error *err = surgeon_call(*line, &surgeon);

	if (err)
		return err;
	err = surgeon_ask(surgeon, &r);
	surgeon_destroy(surgeon);
	*ret = r.answer.expected;
	return err;
}

static struct error *must_check ask(struct memory_snapshot_taken *s, struct surgeon_request *r)
{
	struct error *err = surgeon_ask(s->surgeon, r);

	if (!err)
		s->result = r->answer.snapshot;
	return err;
}

static struct error *must_check enter(struct memory_snapshot_taken *s, const struct image *img,
				      const struct golayout *lay)
{
	struct survey survey = {0};
	struct surgeon_request r = {.operation = SURGEON_ENTER, .survey = &survey};
	struct error *err = survey_make(s->t, img, lay, &survey);

	if (!err)
		err = ask(s, &r);
	s->entered = !err;
	/* It has opened the process that we have, if that is still the one that we have opened. */
	return err ? err : target_check(s->t);
}

static struct error *must_check take(struct memory_snapshot_taken *s, const struct image *img,
				     const struct golayout *lay,
				     const struct snapshot_limits *limits, struct target **ret)
{
	struct surgeon_request r = {.operation = SURGEON_SNAPSHOT, .limits = limits};
	struct error *err = enter(s, img, lay);

	if (!err)
		err = ask(s, &r);
	return err ? err : target_open_memory_snapshot(s->t, r.shared, r.threads, ret);
}

struct error *memory_snapshot_take(struct target *t, const struct image *img,
				   const struct golayout *lay, const struct surgeon_line *line,
				   const struct snapshot_limits *limits, struct target **ret_target,
				   struct memory_snapshot_taken **ret)
{
	struct memory_snapshot_taken *s = calloc(1, sizeof(*s));
	struct snapshot_result result;
	struct error *err;

	if (!s)
		return &error_no_memory;
	s->t = t;
	err = line ? surgeon_call(*line, &s->surgeon)
		   : surgeon_create(target_pid(t), NULL, &s->surgeon);
	if (!err)
		err = take(s, img, lay, limits, ret_target);
	if (err) {
		error_destroy(memory_snapshot_give_back(s, &result));
		return surgeon_explain(t, err);
	}
	*ret = s;
	return NULL;
}

struct error *memory_snapshot_give_back(struct memory_snapshot_taken *s,
					struct snapshot_result *ret_result)
{
	struct surgeon_request end = {.operation = SURGEON_END_SNAPSHOT};
	struct surgeon_request leave = {.operation = SURGEON_LEAVE};
	struct error *err = NULL;

	if (!s)
		return NULL;
	if (s->entered) {
		err = ask(s, &end);
		error_destroy(surgeon_ask(s->surgeon, &leave));
	}
	*ret_result = s->result;
	surgeon_destroy(s->surgeon);
	free(s);
	return err;
}
