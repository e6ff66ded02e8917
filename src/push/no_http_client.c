/* Instead of http_client.c, in a static gospect that was built without a static libcurl. */
#include "push/http_client.h"

struct error *http_client_open(const struct http_options *o, struct http_client **ret)
{
	return error_format(ERROR_FAILED, "this gospect was built without libcurl, which sends "
					  "profiles; use one that is not static");
}

void http_client_send(struct http_client *c, const void *body, size_t size, const char *token,
		      struct http_answer *ret)
{
	*ret = (struct http_answer){.grpc_status = -1};
}
