#include "retained/type_table.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"

uint32_t type_table_id(struct type_table *table, enum object_form form, uint64_t type)
{
	uint32_t *recent = &table->recent[(type >> 5 ^ form) % ARRAY_SIZE(table->recent)];
	uint64_t *place;

	if (*recent && table->items[*recent].form == form && table->items[*recent].type == type)
		return *recent;
	if (!table->count) {
		if (!array_reserve(&table->items, &table->capacity, 1))
			return TYPE_FAILED;
		table->items[table->count++] = (struct object_type){FORM_UNKNOWN, 0};
	}
	if (form == FORM_UNKNOWN && !type)
		return TYPE_UNKNOWN;
	place = map_at(&table->index, type << 4 | form);
	if (!place)
		return TYPE_FAILED;
	if (*place) {
		*recent = (uint32_t)*place;
		return *recent;
	}
	if (table->count >= TYPE_MOST)
		return TYPE_UNKNOWN;
	if (!array_reserve(&table->items, &table->capacity, table->count + 1))
		return TYPE_FAILED;
	table->items[table->count] = (struct object_type){form, type};
	*place = table->count++;
	return (uint32_t)*place;
}

uint32_t type_table_find(const struct type_table *table, enum object_form form, uint64_t type)
{
	const uint64_t *place = map_find(&table->index, type << 4 | form);

	return place ? (uint32_t)*place : TYPE_UNKNOWN;
}

void type_table_release(struct type_table *table)
{
	free(table->items);
	map_release(&table->index);
	*table = (struct type_table){0};
}

static void add_closure(const struct pclntab *functions, uint64_t pc, struct strbuf *ret)
{
	struct go_func f;

	if (pclntab_find(functions, pc, &f))
		strbuf_addf(ret, "func %s", f.name);
	else
		strbuf_adds(ret, "func");
}

struct error *type_table_name(const struct type_table *table, struct runtime_types *types,
			      const struct pclntab *functions, uint32_t id, struct strbuf *ret)
{
	static const char *const before[] = {[FORM_ARRAY] = "[]"};
	static const char *const behind[] = {[FORM_MAP_GROUPS] = " (entries)",
					     [FORM_MAP_TABLE] = " (table)",
					     [FORM_MAP_DIRECTORY] = " (directory)",
					     [FORM_CLOSURE] = ""};
	const struct object_type *o = &table->items[id];
	const struct runtime_type *type = NULL;
	struct error *err;

	if (o->form == FORM_STRING)
		strbuf_adds(ret, "string");
	else if (o->form == FORM_CLOSURE)
		add_closure(functions, o->type, ret);
	else if (o->form == FORM_UNKNOWN)
		strbuf_addf(ret, "unknown, %" PRIu64 " bytes%s", o->type >> 1,
			    o->type & 1 ? ", no pointers" : "");
	else {
		err = runtime_types_get(types, o->type, &type);
		if (err)
			return err;
		if (o->form <= FORM_ARRAY && before[o->form])
			strbuf_adds(ret, before[o->form]);
		if (type && type->name)
			strbuf_adds(ret, type->name);
		else
			strbuf_addf(ret, "type at 0x%" PRIx64, o->type);
		if (behind[o->form])
			strbuf_adds(ret, behind[o->form]);
	}
	return ret->failed ? &error_no_memory : NULL;
}
