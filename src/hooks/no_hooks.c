/* Where there is no agent for this architecture: nothing is put into any process. */
#include "hooks/injection.h"
#include "hooks/take_snapshot.h"

#include <stddef.h>
#include <string.h>

#include "inject/pause.h"

static struct error *must_check refused(void)
{
	return error_format(ERROR_UNSUPPORTED,
			    "trace supports amd64 and arm64 only; use record or dump here");
}

struct error *inject_attach(struct target *t, const struct image *img, const struct golayout *lay,
			    const struct inject_options *options, struct injection **ret)
{
	return refused();
}

struct agent_shared *inject_shared(const struct injection *in)
{
	return NULL;
}

const struct agent_shared *inject_layout(const struct injection *in)
{
	return NULL;
}

void inject_read(const struct injection *in, uint64_t offset, void *ret, size_t size)
{
	memset(ret, 0, size);
}

void inject_populate(const struct injection *in, uint64_t offset, uint64_t size)
{
}

struct error *inject_expected_pause(const struct surgeon_line *surgeon, struct pause *ret)
{
	*ret = (struct pause){0};
	return NULL;
}

bool inject_beat(struct injection *in)
{
	return false;
}

struct error *inject_update_readable(struct injection *in)
{
	return NULL;
}

const struct strbuf *inject_left_out(const struct injection *in)
{
	static const struct strbuf none = STRBUF_INIT;

	return &none;
}

uint64_t inject_lost(const struct injection *in)
{
	return 0;
}

uint64_t inject_without_ring(const struct injection *in)
{
	return 0;
}

uint64_t inject_attached_at(const struct injection *in)
{
	return 0;
}

uint64_t inject_attach_ns(const struct injection *in)
{
	return 0;
}

uint64_t inject_detach_ns(const struct injection *in)
{
	return 0;
}

struct error *inject_detach(struct injection *in)
{
	return NULL;
}

void inject_destroy(struct injection *in)
{
}

struct error *inject_clean(struct target *t, const struct image *img, const struct golayout *lay,
			   const struct surgeon_line *surgeon, bool *ret_found)
{
	*ret_found = false;
	return NULL;
}

struct error *memory_snapshot_expect(const struct surgeon_line *line,
				     struct snapshot_expectation *ret)
{
	return refused();
}

struct error *memory_snapshot_take(struct target *t, const struct image *img,
				   const struct golayout *lay, const struct surgeon_line *line,
				   const struct snapshot_limits *limits, struct target **ret_target,
				   struct memory_snapshot_taken **ret)
{
	return refused();
}

struct error *memory_snapshot_give_back(struct memory_snapshot_taken *s,
					struct snapshot_result *ret_result)
{
	return NULL;
}
