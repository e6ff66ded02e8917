/*
 * OpenTelemetry's profiles. What profiles share is in tables (the dictionary), and has a place
 * there; equal elements share one. A table is a set of packed messages, of which the first is
 * empty. A profile of several kinds of values becomes one for each kind.
 *
 * The goroutine's own labels `trace_id` and `span_id` become the sample's link.
 */
#include <ctype.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/intern.h"
#include "otlp.pb-c.h"
#include "push/destination_formats.h"

#define TRACE_BYTES 16
#define SPAN_BYTES 8

struct otlp {
	struct intern strings, mappings, locations, functions, links, attributes, stacks;
	struct strbuf packed; /* the last message */
	bool failed;          /* no memory */
};

/* Places in the tables of what one pprof message has; by id. */
struct places {
	const Pprof__Profile *of;
	int32_t *strings, *mappings, *locations, *functions;
};

static void otlp_release(struct otlp *o)
{
	struct intern *tables[] = {&o->strings, &o->mappings,   &o->locations, &o->functions,
				   &o->links,   &o->attributes, &o->stacks};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		intern_release(tables[i]);
	strbuf_release(&o->packed);
}

static void places_release(struct places *p)
{
	free(p->strings);
	free(p->mappings);
	free(p->locations);
	free(p->functions);
}

/* ---- tables ---- */

static int32_t place_of_bytes(struct otlp *o, struct intern *table, const void *bytes, size_t size)
{
	uint32_t id = intern_bytes(table, bytes, size);

	o->failed |= id == INTERN_FAILED;
	return id == INTERN_FAILED ? 0 : (int32_t)id;
}

static int32_t place_of_text(struct otlp *o, const char *text)
{
	return place_of_bytes(o, &o->strings, text, strlen(text));
}

static int32_t place_of(struct otlp *o, struct intern *table, const ProtobufCMessage *m)
{
	size_t size = protobuf_c_message_get_packed_size(m);
	char *to;

	strbuf_reset(&o->packed);
	to = strbuf_reserve(&o->packed, size);
	if (!to) {
		o->failed = true;
		return 0;
	}
	return place_of_bytes(o, table, to, protobuf_c_message_pack(m, (uint8_t *)to));
}

static int32_t string_at(const struct places *p, int64_t id)
{
	return id >= 0 && (size_t)id < p->of->n_string_table ? p->strings[id] : 0;
}

static int32_t attribute_text(struct otlp *o, int32_t key, const char *value)
{
	Otlp__KeyValueAndUnit attribute = OTLP__KEY_VALUE_AND_UNIT__INIT;
	Otlp__AnyValue any = OTLP__ANY_VALUE__INIT;

	any.value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	any.string_value = (char *)value;
	attribute.key_strindex = key;
	attribute.value = &any;
	return place_of(o, &o->attributes, &attribute.base);
}

static int32_t attribute_number(struct otlp *o, int32_t key, int64_t value)
{
	Otlp__KeyValueAndUnit attribute = OTLP__KEY_VALUE_AND_UNIT__INIT;
	Otlp__AnyValue any = OTLP__ANY_VALUE__INIT;

	any.value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
	any.int_value = value;
	attribute.key_strindex = key;
	attribute.value = &any;
	return place_of(o, &o->attributes, &attribute.base);
}

static int32_t mapping_place(struct otlp *o, const struct places *p, const Pprof__Mapping *m)
{
	Otlp__Mapping mapping = OTLP__MAPPING__INIT;
	const char *build_id = m->build_id >= 0 && (size_t)m->build_id < p->of->n_string_table
				       ? p->of->string_table[m->build_id]
				       : "";
	int32_t attribute = 0;

	if (*build_id)
		attribute = attribute_text(o, place_of_text(o, "process.executable.build_id.gnu"),
					   build_id);
	mapping.memory_start = m->memory_start;
	mapping.memory_limit = m->memory_limit;
	mapping.file_offset = m->file_offset;
	mapping.filename_strindex = string_at(p, m->filename);
	mapping.n_attribute_indices = attribute != 0;
	mapping.attribute_indices = &attribute;
	return place_of(o, &o->mappings, &mapping.base);
}

static int32_t function_place(struct otlp *o, const struct places *p, const Pprof__Function *f)
{
	Otlp__Function function = OTLP__FUNCTION__INIT;

	function.name_strindex = string_at(p, f->name);
	function.system_name_strindex = string_at(p, f->system_name);
	function.filename_strindex = string_at(p, f->filename);
	function.start_line = f->start_line;
	return place_of(o, &o->functions, &function.base);
}

static int32_t location_place(struct otlp *o, const struct places *p, const Pprof__Location *l)
{
	Otlp__Location location = OTLP__LOCATION__INIT;
	_cleanup_free_ Otlp__Line *lines = calloc(l->n_line + 1, sizeof(*lines));
	_cleanup_free_ Otlp__Line **list = calloc(l->n_line + 1, sizeof(*list));

	if (!lines || !list) {
		o->failed = true;
		return 0;
	}
	for (size_t i = 0; i < l->n_line; i++) {
		otlp__line__init(&lines[i]);
		if (l->line[i]->function_id <= p->of->n_function)
			lines[i].function_index = p->functions[l->line[i]->function_id];
		lines[i].line = l->line[i]->line;
		list[i] = &lines[i];
	}
	location.mapping_index = l->mapping_id <= p->of->n_mapping ? p->mappings[l->mapping_id] : 0;
	location.address = l->address;
	location.n_lines = l->n_line;
	location.lines = list;
	return place_of(o, &o->locations, &location.base);
}

static struct error *must_check places_create(struct otlp *o, const Pprof__Profile *of,
					      struct places *p)
{
	*p = (struct places){
		.of = of,
		.strings = calloc(of->n_string_table + 1, sizeof(int32_t)),
		.mappings = calloc(of->n_mapping + 1, sizeof(int32_t)),
		.locations = calloc(of->n_location + 1, sizeof(int32_t)),
		.functions = calloc(of->n_function + 1, sizeof(int32_t)),
	};
	if (!p->strings || !p->mappings || !p->locations || !p->functions)
		return &error_no_memory;
	for (size_t i = 0; i < of->n_string_table; i++)
		p->strings[i] = place_of_text(o, of->string_table[i]);
	for (size_t i = 0; i < of->n_mapping; i++)
		if (of->mapping[i]->id <= of->n_mapping)
			p->mappings[of->mapping[i]->id] = mapping_place(o, p, of->mapping[i]);
	for (size_t i = 0; i < of->n_function; i++)
		if (of->function[i]->id <= of->n_function)
			p->functions[of->function[i]->id] = function_place(o, p, of->function[i]);
	for (size_t i = 0; i < of->n_location; i++)
		if (of->location[i]->id <= of->n_location)
			p->locations[of->location[i]->id] = location_place(o, p, of->location[i]);
	return o->failed ? &error_no_memory : NULL;
}

/* ---- samples ---- */

/* Whether it is one of "trace_id", "traceID", "trace.id" ... */
static bool is_id_key(const char *key, const char *wanted)
{
	for (; *key; key++) {
		if (*key == '_' || *key == '.' || *key == '-')
			continue;
		if (tolower((unsigned char)*key) != *wanted++)
			return false;
	}
	return !*wanted;
}

static bool parse_id(const char *text, uint8_t *to, size_t size)
{
	if (strlen(text) != 2 * size)
		return false;
	for (size_t i = 0; i < 2 * size; i++) {
		int c = tolower((unsigned char)text[i]);

		if (!isxdigit(c))
			return false;
		to[i / 2] = to[i / 2] << 4 | (isdigit(c) ? c - '0' : c - 'a' + 10);
	}
	return true;
}

/* The trace and span of a sample, which its labels name. */
struct span {
	uint8_t trace[TRACE_BYTES], id[SPAN_BYTES];
	bool has_trace, has_id;
};

/* Whether the label names the span. */
static bool take_span(struct span *span, const char *key, const char *value)
{
	if (!span->has_trace && is_id_key(key, "traceid"))
		return span->has_trace = parse_id(value, span->trace, TRACE_BYTES);
	if (!span->has_id && is_id_key(key, "spanid"))
		return span->has_id = parse_id(value, span->id, SPAN_BYTES);
	return false;
}

static int32_t link_place(struct otlp *o, struct span *span)
{
	Otlp__Link link = OTLP__LINK__INIT;

	link.trace_id = (ProtobufCBinaryData){TRACE_BYTES, span->trace};
	link.span_id = (ProtobufCBinaryData){SPAN_BYTES, span->id};
	return place_of(o, &o->links, &link.base);
}

static const char *text_at(const Pprof__Profile *p, int64_t id)
{
	return id >= 0 && (size_t)id < p->n_string_table ? p->string_table[id] : "";
}

/* The attributes of a sample and its link; *attributes has room for all labels. */
static size_t take_labels(struct otlp *o, const struct places *p, const Pprof__Sample *s,
			  int32_t *attributes, int32_t *ret_link)
{
	struct span span = {0};
	size_t n = 0;

	for (size_t i = 0; i < s->n_label; i++) {
		const Pprof__Label *l = s->label[i];

		if (!l->str)
			attributes[n++] = attribute_number(o, string_at(p, l->key), l->num);
		else if (!take_span(&span, text_at(p->of, l->key), text_at(p->of, l->str)))
			attributes[n++] =
				attribute_text(o, string_at(p, l->key), text_at(p->of, l->str));
	}
	*ret_link = span.has_trace ? link_place(o, &span) : 0;
	return n;
}

static int32_t stack_place(struct otlp *o, const struct places *p, const Pprof__Sample *s)
{
	_cleanup_free_ int32_t *locations = calloc(s->n_location_id + 1, sizeof(*locations));
	Otlp__Stack stack = OTLP__STACK__INIT;

	if (!locations) {
		o->failed = true;
		return 0;
	}
	for (size_t i = 0; i < s->n_location_id; i++)
		if (s->location_id[i] <= p->of->n_location)
			locations[i] = p->locations[s->location_id[i]];
	stack.n_location_indices = s->n_location_id;
	stack.location_indices = locations;
	return place_of(o, &o->stacks, &stack.base);
}

/* ---- profiles ---- */

/* One kind of value of one message. */
struct column {
	Otlp__Profile profile;
	Otlp__ValueType type, period_type;
	Otlp__Sample *samples;
	Otlp__Sample **list;
	int32_t *attributes; /* of all samples */
	uint8_t id[16];
};

enum { MOST_COLUMNS = 8 };

struct columns {
	struct column items[MOST_COLUMNS];
	Otlp__Profile *list[MOST_COLUMNS];
	size_t count;
};

static void columns_release(struct columns *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->items[i].samples);
		free(c->items[i].list);
		free(c->items[i].attributes);
	}
}

static struct error *must_check column_create(const Pprof__Profile *of, struct column *c)
{
	size_t labels = 0;

	otlp__profile__init(&c->profile);
	otlp__value_type__init(&c->type);
	otlp__value_type__init(&c->period_type);
	for (size_t i = 0; i < of->n_sample; i++)
		labels += of->sample[i]->n_label;
	c->samples = calloc(of->n_sample + 1, sizeof(*c->samples));
	c->list = calloc(of->n_sample + 1, sizeof(*c->list));
	c->attributes = calloc(labels + 1, sizeof(*c->attributes));
	return c->samples && c->list && c->attributes ? NULL : &error_no_memory;
}

static void fill_samples(struct otlp *o, const struct places *p, size_t value, struct column *c)
{
	int32_t *attributes = c->attributes;
	size_t n = 0;

	for (size_t i = 0; i < p->of->n_sample; i++) {
		Pprof__Sample *from = p->of->sample[i];
		Otlp__Sample *s = &c->samples[n];

		if (value >= from->n_value || !from->value[value])
			continue;
		otlp__sample__init(s);
		s->stack_index = stack_place(o, p, from);
		s->n_attribute_indices = take_labels(o, p, from, attributes, &s->link_index);
		s->attribute_indices = attributes;
		attributes += s->n_attribute_indices;
		s->n_values = 1;
		s->values = &from->value[value];
		c->list[n++] = s;
	}
	c->profile.n_samples = n;
	c->profile.samples = c->list;
}

static void fill_type(const struct places *p, const Pprof__ValueType *from, Otlp__ValueType *to)
{
	to->type_strindex = string_at(p, from->type);
	to->unit_strindex = string_at(p, from->unit);
}

static void fill_head(const struct places *p, const struct push_profile *from, size_t value,
		      struct column *c)
{
	const Pprof__Profile *of = p->of;

	fill_type(p, of->sample_type[value], &c->type);
	fill_type(p,
		  from->count == 1 || !of->period_type ? of->sample_type[value] : of->period_type,
		  &c->period_type);
	c->profile.sample_type = &c->type;
	c->profile.period_type = &c->period_type;
	c->profile.period = of->period;
	c->profile.time_unix_nano = of->time_nanos;
	c->profile.duration_nano = of->duration_nanos;
	/* Servers tell by it that they have it already. */
	if (getrandom(c->id, sizeof(c->id), 0) == sizeof(c->id))
		c->profile.profile_id = (ProtobufCBinaryData){sizeof(c->id), c->id};
}

static struct error *must_check add_columns(struct otlp *o, const struct push_profile *from,
					    struct columns *ret)
{
	_cleanup_(places_release) struct places p = {0};
	struct error *err = places_create(o, from->of, &p);

	for (size_t i = 0; !err && i < from->count && ret->count < MOST_COLUMNS; i++) {
		struct column *c = &ret->items[ret->count];

		if (from->first + i >= from->of->n_sample_type)
			break;
		ret->list[ret->count++] = &c->profile;
		err = column_create(from->of, c);
		if (err)
			break;
		fill_head(&p, from, from->first + i, c);
		fill_samples(o, &p, from->first + i, c);
	}
	return !err && o->failed ? &error_no_memory : err;
}

/* ---- the request ---- */

struct resource {
	Otlp__Resource resource;
	Otlp__KeyValue *attributes;
	Otlp__KeyValue **list;
	Otlp__AnyValue *values;
};

static void resource_release(struct resource *r)
{
	free(r->attributes);
	free(r->list);
	free(r->values);
}

static struct error *must_check resource_fill(const struct labels *labels, struct resource *r)
{
	otlp__resource__init(&r->resource);
	r->attributes = calloc(labels->count + 1, sizeof(*r->attributes));
	r->list = calloc(labels->count + 1, sizeof(*r->list));
	r->values = calloc(labels->count + 1, sizeof(*r->values));
	if (!r->attributes || !r->list || !r->values)
		return &error_no_memory;
	for (size_t i = 0; i < labels->count; i++) {
		const struct label *l = &labels->items[i];

		otlp__any_value__init(&r->values[i]);
		r->values[i].value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
		r->values[i].string_value = l->value;
		if (l->kind == LABEL_PID) {
			r->values[i].value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
			r->values[i].int_value = atol(l->value);
		}
		otlp__key_value__init(&r->attributes[i]);
		r->attributes[i].key = (char *)label_otel_name(l);
		r->attributes[i].value = &r->values[i];
		r->list[i] = &r->attributes[i];
	}
	r->resource.n_attributes = labels->count;
	r->resource.attributes = r->list;
	return NULL;
}

static ProtobufCBinaryData *table_of(struct otlp *o, struct intern *table, size_t *ret_count)
{
	ProtobufCBinaryData *list;

	place_of_bytes(o, table, "", 0);
	list = calloc(table->count + 1, sizeof(*list));
	o->failed |= !list;
	*ret_count = list ? table->count : 0;
	for (size_t i = 0; i < *ret_count; i++)
		list[i] = (ProtobufCBinaryData){table->strings[i].length,
						(uint8_t *)table->strings[i].data};
	return list;
}

static void dictionary_release(Otlp__Dictionary *d)
{
	free(d->mapping_table);
	free(d->location_table);
	free(d->function_table);
	free(d->link_table);
	free(d->string_table);
	free(d->attribute_table);
	free(d->stack_table);
}

static void dictionary_fill(struct otlp *o, Otlp__Dictionary *d)
{
	otlp__dictionary__init(d);
	d->mapping_table = table_of(o, &o->mappings, &d->n_mapping_table);
	d->location_table = table_of(o, &o->locations, &d->n_location_table);
	d->function_table = table_of(o, &o->functions, &d->n_function_table);
	d->link_table = table_of(o, &o->links, &d->n_link_table);
	d->attribute_table = table_of(o, &o->attributes, &d->n_attribute_table);
	d->stack_table = table_of(o, &o->stacks, &d->n_stack_table);
	place_of_text(o, "");
	d->string_table = calloc(o->strings.count + 1, sizeof(*d->string_table));
	o->failed |= !d->string_table;
	d->n_string_table = d->string_table ? o->strings.count : 0;
	for (size_t i = 0; i < d->n_string_table; i++)
		d->string_table[i] = o->strings.strings[i].data;
}

static struct error *must_check pack(const Otlp__Request *request, struct strbuf *ret)
{
	size_t size = otlp__request__get_packed_size(request);
	_cleanup_free_ uint8_t *bytes = malloc(size + 1);

	if (!bytes)
		return &error_no_memory;
	return push_gzip(bytes, otlp__request__pack(request, bytes), ret);
}

static struct error *must_check write_request(struct otlp *o, struct columns *columns,
					      const struct labels *labels, struct strbuf *ret)
{
	_cleanup_(resource_release) struct resource resource = {0};
	_cleanup_(dictionary_release) Otlp__Dictionary dictionary;
	Otlp__Scope scope = OTLP__SCOPE__INIT;
	Otlp__ScopeProfiles profiles = OTLP__SCOPE_PROFILES__INIT, *profile_list = &profiles;
	Otlp__ResourceProfiles of = OTLP__RESOURCE_PROFILES__INIT, *resource_list = &of;
	Otlp__Request request = OTLP__REQUEST__INIT;
	struct error *err = resource_fill(labels, &resource);

	dictionary_fill(o, &dictionary);
	if (!err && o->failed)
		err = &error_no_memory;
	if (err)
		return err;
	scope.name = "gospect";
	scope.version = GOSPECT_VERSION;
	profiles.scope = &scope;
	profiles.n_profiles = columns->count;
	profiles.profiles = columns->list;
	of.resource = &resource.resource;
	of.n_scope_profiles = 1;
	of.scope_profiles = &profile_list;
	request.n_resource_profiles = 1;
	request.resource_profiles = &resource_list;
	request.dictionary = &dictionary;
	return pack(&request, ret);
}

struct error *otlp_encode(const struct push_segment *s, struct strbuf *ret)
{
	_cleanup_(otlp_release) struct otlp o = {.packed = STRBUF_INIT};
	_cleanup_(columns_release) struct columns columns = {0};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < s->count; i++)
		err = add_columns(&o, &s->profiles[i], &columns);
	return err ? err : write_request(&o, &columns, s->labels, ret);
}
