#include "lib/top_profile.h"

#include <string.h>

#include "base/cleanup.h"
#include "lib/fill.h"

static struct error *add_totals(struct profile *p, const struct top_model *m,
				struct goroutine_set *set)
{
	struct error *err = NULL;

	for (size_t i = 1; !err && i <= m->key_count; i++) {
		const struct top_key *key = &m->keys[i];
		struct profile_sample sample = {
			.count = m->totals[i].count,
			.wall_ns = m->totals[i].ns,
			.cpu_ns = m->totals[i].cpu_ns,
		};

		if (sample.count || sample.wall_ns || sample.cpu_ns)
			err = fill_sample(p, set, key->stack, key->labels, key->status,
					  key->wait_reason, &sample, NULL);
	}
	return err;
}

static struct error *add_comments(struct profile *p, const struct running_stacks *r, double rate)
{
	struct error *err;

	err = profile_add_comment(p, "gospect %s, wall clock of goroutines, %s", GOSPECT_VERSION,
				  p->go_version);
	if (!err)
		err = profile_add_comment(p, "%.1f seconds, sampled %g times a second or less",
					  p->duration_ns / 1e9, rate);
	if (!err && r->denied)
		err = profile_add_comment(p, "on-CPU stacks: none, %s", r->denied->message);
	return err;
}

static struct error *copy_process(struct profile *p, const struct profile *about)
{
	struct error *err = NULL;

	p->command = strdup(about->command);
	p->go_version = strdup(about->go_version);
	if (!p->command || !p->go_version)
		return &error_no_memory;
	for (size_t i = 0; !err && i < about->mapping_count; i++)
		err = profile_add_mapping(p, &about->mappings[i]);
	return err;
}

static struct error *fill(struct profile *p, const struct top_source *s)
{
	const struct top_model *m = s->model;
	struct error *err = copy_process(p, s->about);

	p->duration_ns = m->window_ns;
	p->time_ns = s->end - m->window_ns;
	p->period_ns = 1e9 / s->rate;
	if (!err)
		err = add_totals(p, m, wall_sampler_set(s->sampler));
	return err ? err : add_comments(p, s->running, s->rate);
}

struct error *top_profile_make(const struct top_source *s, struct gospect_profile **ret)
{
	_cleanup_profile_handle_ struct gospect_profile *p = profile_new();
	unsigned int window = s->model->window;
	struct error *err;

	if (!p)
		return &error_no_memory;
	top_model_set_window(s->model, s->seconds);
	err = fill(p->profile, s);
	top_model_set_window(s->model, window);
	if (!err)
		err = profile_symbolize_code(p->profile, &s->code, NULL, &p->symbols);
	if (!err)
		err = fill_modules(p->profile, s->code.modules);
	if (err)
		return err;
	profile_describe(p, true);
	*ret = take_ptr(p);
	return NULL;
}
