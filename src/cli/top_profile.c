#include "cli/top_profile.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "lib/fill.h"
#include "profile/profile.h"

static struct error *choose_format(const struct output_options *output,
				   const struct profile_format **ret)
{
	*ret = output->format ? profile_format_named(output->format)
			      : profile_format_for_file(output->path);
	if (*ret)
		return NULL;
	return error_format(
		ERROR_USAGE,
		"unknown file extension of %s; use .pb.gz, .pprof, .folded, .json or .html",
		output->path);
}

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
					  key->wait_reason, &sample);
	}
	return err;
}

static struct error *add_comments(struct profile *p, const struct wall_result *r)
{
	struct error *err;

	err = profile_add_comment(p, "gospect %s, wall clock of goroutines, %s", GOSPECT_VERSION,
				  p->go_version);
	if (!err)
		err = profile_add_comment(p, "the last %.1f seconds of gospect top",
					  p->duration_ns / 1e9);
	if (!err && r->no_on_cpu)
		err = profile_add_comment(p, "on-CPU stacks: none, %s", r->no_on_cpu->message);
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

static struct error *make_profile(struct profile *p, const struct top_model *m,
				  struct wall_sampler *sampler, const struct profile *about,
				  uint64_t end)
{
	struct error *err = copy_process(p, about);

	p->duration_ns = m->window_ns;
	p->time_ns = end - m->window_ns;
	p->period_ns = 10000000;
	if (!err)
		err = add_totals(p, m, wall_sampler_set(sampler));
	return err ? err : add_comments(p, wall_sampler_result(sampler));
}

static struct error *write_profile(struct profile *p, const struct profile_format *format,
				   const struct subject *s, struct modules *modules,
				   struct outfile *out)
{
	const struct code code = {&s->image->functions, modules};
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	struct error *err = profile_symbolize_code(p, &code, &symbols);

	if (!err)
		err = fill_modules(p, modules);
	if (!err)
		err = format->write(p, symbols, out->stream);
	return err ? err : outfile_commit(out);
}

struct error *top_profile_name_outputs(const struct output_options *output,
				       struct subject_options *ret)
{
	static const char *folders[7] = {"", "/tmp", "/var/tmp"};
	const char *temporary = getenv("TMPDIR");
	const char *slash = output->path ? strrchr(output->path, '/') : NULL;
	size_t count = 3;

	folders[count] = getcwd(NULL, 0);
	count += folders[count] != NULL;
	if (temporary && *temporary)
		folders[count++] = temporary;
	if (slash) {
		folders[count] = strndup(output->path, slash - output->path);
		if (!folders[count])
			return &error_no_memory;
	}
	ret->path = output->path;
	ret->names = (struct outfile_rule){folders, profile_format_suffixes()};
	return NULL;
}

struct error *top_profile_write(struct top_model *m, struct wall_sampler *sampler,
				const struct subject *s, const struct profile *about,
				const struct output_options *output,
				const struct subject_options *named, uint64_t end, uint64_t *ret_ns)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_profile_ struct profile *p = NULL;
	const struct profile_format *format;
	unsigned int window = m->window;
	struct error *err = choose_format(output, &format);

	if (!err && named->path && !strcmp(output->path, named->path))
		err = outfile_open(output->path, &out);
	else if (!err)
		err = outfile_open_new(output->path, &named->names, &out);
	if (err)
		return err;
	p = profile_create();
	if (!p)
		return &error_no_memory;
	top_model_set_window(m, TOP_PROFILE_SECONDS);
	*ret_ns = m->window_ns;
	err = make_profile(p, m, sampler, about, end);
	top_model_set_window(m, window);
	return err ? err : write_profile(p, format, s, wall_sampler_modules(sampler), &out);
}
