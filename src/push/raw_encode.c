/* Pyroscope and Parca: each profile is a pprof file with labels. `__name__` says which it is. */
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "push/destination_formats.h"
#include "raw_push.pb-c.h"

/* The labels of one profile. */
struct series_labels {
	Push__Label *labels;
	Push__Label **list;
	char (*names)[LABEL_MOST + 1];
	size_t count;
};

static void series_process_labels_release(struct series_labels *s)
{
	free(s->labels);
	free(s->list);
	free(s->names);
}

/* `__name__` is the first; fill_name() sets its value. */
static struct error *must_check series_labels_create(const struct labels *from,
						     struct series_labels *ret)
{
	size_t count = from->count + 1;

	ret->labels = calloc(count, sizeof(*ret->labels));
	ret->list = calloc(count, sizeof(*ret->list));
	ret->names = calloc(count, sizeof(*ret->names));
	if (!ret->labels || !ret->list || !ret->names)
		return &error_no_memory;
	ret->count = count;
	for (size_t i = 0; i < count; i++) {
		push__label__init(&ret->labels[i]);
		ret->list[i] = &ret->labels[i];
		ret->labels[i].name = ret->names[i];
		if (!i) {
			strcpy(ret->names[0], "__name__");
			continue;
		}
		label_prometheus_name(&from->items[i - 1], ret->names[i]);
		ret->labels[i].value = from->items[i - 1].value;
	}
	return NULL;
}

/* What both kinds of series are made of. */
struct raw_series {
	struct series_labels labels;
	struct strbuf profile;
	Push__RawSample sample, *samples;
};

static void raw_series_release(struct raw_series *r)
{
	series_process_labels_release(&r->labels);
	strbuf_release(&r->profile);
}

static struct error *must_check raw_series_fill(struct raw_series *r, const struct push_segment *s,
						size_t profile)
{
	struct error *err = series_labels_create(s->labels, &r->labels);

	r->profile = (struct strbuf)STRBUF_INIT;
	if (!err)
		err = push_profile_pack(&s->profiles[profile], &r->profile);
	if (err)
		return err;
	r->labels.labels[0].value = (char *)s->profiles[profile].name;
	push__raw_sample__init(&r->sample);
	r->sample.raw_profile.data = (uint8_t *)r->profile.data;
	r->sample.raw_profile.len = r->profile.length;
	r->samples = &r->sample;
	return NULL;
}

static struct error *must_check add_packed(const ProtobufCMessage *m, struct strbuf *ret)
{
	size_t size = protobuf_c_message_get_packed_size(m);
	char *to = strbuf_reserve(ret, size);

	if (!to)
		return &error_no_memory;
	ret->length += protobuf_c_message_pack(m, (uint8_t *)to);
	return NULL;
}

struct error *pyroscope_encode(const struct push_segment *s, struct strbuf *ret)
{
	struct raw_series raw[PUSH_MOST_PROFILES] = {0};
	Push__PyroscopeSeries series[PUSH_MOST_PROFILES], *list[PUSH_MOST_PROFILES];
	Push__PyroscopeRequest request = PUSH__PYROSCOPE_REQUEST__INIT;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < s->count; i++) {
		err = raw_series_fill(&raw[i], s, i);
		push__pyroscope_series__init(&series[i]);
		series[i].n_labels = raw[i].labels.count;
		series[i].labels = raw[i].labels.list;
		series[i].n_samples = 1;
		series[i].samples = &raw[i].samples;
		list[i] = &series[i];
	}
	request.n_series = s->count;
	request.series = list;
	if (!err)
		err = add_packed(&request.base, ret);
	for (size_t i = 0; i < s->count; i++)
		raw_series_release(&raw[i]);
	return err;
}

struct error *parca_encode(const struct push_segment *s, struct strbuf *ret)
{
	struct raw_series raw[PUSH_MOST_PROFILES] = {0};
	Push__ParcaSeries series[PUSH_MOST_PROFILES], *list[PUSH_MOST_PROFILES];
	Push__ParcaLabels labels[PUSH_MOST_PROFILES];
	Push__ParcaRequest request = PUSH__PARCA_REQUEST__INIT;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < s->count; i++) {
		err = raw_series_fill(&raw[i], s, i);
		push__parca_labels__init(&labels[i]);
		labels[i].n_labels = raw[i].labels.count;
		labels[i].labels = raw[i].labels.list;
		push__parca_series__init(&series[i]);
		series[i].labels = &labels[i];
		series[i].n_samples = 1;
		series[i].samples = &raw[i].samples;
		list[i] = &series[i];
	}
	request.n_series = s->count;
	request.series = list;
	if (!err)
		err = add_packed(&request.base, ret);
	for (size_t i = 0; i < s->count; i++)
		raw_series_release(&raw[i]);
	return err;
}
