#include <gospect/symbolize.h>
#include <string.h>

#include "base/cleanup.h"
#include "dump/raw_dump.h"
#include "lib/binaries.h"
#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/sink.h"

static struct error *must_check take_given(const struct gospect_symbolize_options *given,
					   struct binaries *b)
{
	struct gospect_symbolize_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_symbolize_options");

	b->remark = (struct remark){o.remark, o.arg};
	b->cancel = cancel_flag(o.cancel);
	for (size_t i = 0; !err && i < o.file_count; i++)
		err = debug_files_add(&b->given, o.files[i]);
	b->named = b->given.count;
	for (size_t i = 0; !err && i < o.folder_count; i++)
		err = debug_files_add_folder(&b->given, o.folders[i]);
	return err;
}

static struct error *must_check find_binaries(const struct gospect_symbolize_options *given,
					      const struct profile *p, struct binaries *b)
{
	struct error *err = take_given(given, b);

	b->mappings = p->mappings;
	b->count = p->mapping_count;
	return err ? err : binaries_open(b);
}

/* Adds the titles that the raw file lacks. */
static struct error *must_check fill_titles(struct profile *p, const struct binaries *b)
{
	const char *path = b->mappings[b->main].file, *slash = strrchr(path, '/');

	if (!p->command)
		p->command = strdup(slash ? slash + 1 : path);
	if (!p->go_version)
		p->go_version = strdup(b->image->info.version);
	return p->command && p->go_version ? NULL : &error_no_memory;
}

static struct error *must_check symbolize(struct gospect_profile *p,
					  const struct gospect_symbolize_options *given)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_binaries_ struct binaries b = {0};
	struct error *err = find_binaries(given, p->profile, &b);
	struct code code;

	if (!err)
		err = fill_titles(p->profile, &b);
	if (err)
		return err;
	code = (struct code){&b.image->functions, b.modules};
	err = profile_symbolize_code(p->profile, &code, b.cancel, &symbols);
	if (err)
		return err;
	profile_symbols_destroy(p->symbols);
	p->symbols = take_ptr(symbols);
	return NULL;
}

struct gospect_error *gospect_profile_symbolize(struct gospect_profile *p,
						const struct gospect_symbolize_options *options)
{
	struct error *err;

	if (p->info.has_functions)
		return error_out(error_format(ERROR_USAGE, "it has function names already"));
	err = symbolize(p, options);
	if (err)
		return error_out(err);
	arena_release(&p->given);
	p->samples = NULL;
	profile_describe(p, true);
	return NULL;
}

int gospect_text_has_addresses(const void *bytes, size_t size)
{
	return dump_raw_is(bytes, size);
}

/* The mappings, as a profile has them. */
static struct error *must_check take_mappings(struct profile *p, const struct dump_raw *raw)
{
	struct error *err = p ? NULL : &error_no_memory;

	for (size_t i = 0; !err && i < raw->count; i++) {
		const struct module_range *m = &raw->mappings[i];
		struct profile_mapping mapping = {m->start, m->end, m->offset, (char *)m->path,
						  (char *)m->build_id};

		err = profile_add_mapping(p, &mapping);
	}
	return err;
}

struct gospect_error *gospect_text_symbolize(const void *bytes, size_t size,
					     const struct gospect_symbolize_options *options,
					     struct gospect_sink sink)
{
	_cleanup_profile_ struct profile *p = profile_create();
	_cleanup_dump_raw_ struct dump_raw raw = {0};
	_cleanup_binaries_ struct binaries b = {0};
	struct sink_stream out;
	struct error *err = dump_raw_read(bytes, size, &raw);

	if (!err)
		err = take_mappings(p, &raw);
	if (!err)
		err = find_binaries(options, p, &b);
	if (!err)
		err = sink_open(&sink, &out);
	if (!err)
		err = sink_close(&out, dump_raw_symbolize(&raw, b.image, b.cancel, out.file));
	return error_out(err);
}
