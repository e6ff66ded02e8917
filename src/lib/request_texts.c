#include "lib/request_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "gotrace/grpc_code.h"
#include "gotrace/label_text.h"

static const char GRPC[] = "gRPC";

/* Facts of a call that is no request, or of several, are nobody's. */
static struct span_facts facts_of(const struct traced_request *from)
{
	return from->of_several ? (struct span_facts){0} : from->facts;
}

/* Sets the member that the label is for; false: no memory. */
static bool give(struct gospect_request *ret, const struct strbuf *key, const struct strbuf *value,
		 struct arena *arena)
{
	const struct {
		const char *key;
		const char **member;
	} members[] = {
		{"method", &ret->method},     {"path", &ret->url_path},   {"peer", &ret->peer},
		{"trace_id", &ret->trace_id}, {"span_id", &ret->span_id},
	};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (strcmp(key->data, members[i].key) != 0)
			continue;
		*members[i].member = arena_copy(arena, value->data, value->length);
		return *members[i].member;
	}
	return true;
}

/* A number, or the name of a gRPC code. Neither: it is not known. */
static void give_status(const struct span_tables *tables, uint32_t status,
			struct gospect_request *ret)
{
	const char *text = status ? intern_get(&tables->texts, status) : "";
	char *end;

	ret->status = strtoul(text, &end, 10);
	ret->has_status = end > text || grpc_code_find(text, &ret->status);
	ret->status_name = ret->has_status ? text : "";
}

bool request_texts_give(const struct span_tables *tables, const struct traced_request *from,
			struct arena *arena, struct gospect_request *ret)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT, value = STRBUF_INIT;
	struct span_facts facts = facts_of(from);
	const char *line = facts.request ? intern_get(&tables->texts, facts.request) : "";
	bool given = true;

	give_status(tables, facts.status, ret);
	ret->method = ret->url_path = ret->peer = ret->trace_id = ret->span_id = "";
	ret->route = facts.route ? intern_get(&tables->texts, facts.route) : "";
	while (given && label_text_next(&line, &key, &value))
		given = give(ret, &key, &value, arena);
	/* A path of gRPC is a method: there is one for each. */
	if (!*ret->route && !strcmp(ret->method, GRPC))
		ret->route = ret->url_path;
	return given && !key.failed && !value.failed;
}

static bool is_grpc(const char *line)
{
	_cleanup_strbuf_ struct strbuf method = STRBUF_INIT;

	return label_text_find(line, "method", &method) && !strcmp(method.data, GRPC);
}

void request_texts_route(const struct span_tables *tables, const struct traced_request *from,
			 bool or_path, struct strbuf *ret)
{
	struct span_facts facts = facts_of(from);
	const char *line = facts.request ? intern_get(&tables->texts, facts.request) : NULL;

	strbuf_reset(ret);
	if (facts.route)
		strbuf_adds(ret, intern_get(&tables->texts, facts.route));
	else if (line && (or_path || is_grpc(line)) && !label_text_find(line, "path", ret))
		strbuf_reset(ret);
}
