#include "push/destination.h"

#include <string.h>

#include "base/array.h"
#include "push/destination_formats.h"

static const struct destination destinations[] = {
	{
		.name = "pyroscope",
		.path = "/push.v1.PusherService/Push",
		.content_type = "application/proto",
		.encode = pyroscope_encode,
	},
	{
		.name = "parca",
		.grpc_path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
		.encode = parca_encode,
	},
	{
		.name = "otlp",
		.path = "/v1development/profiles",
		.grpc_path =
			"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/"
			"Export",
		.content_type = "application/x-protobuf",
		.is_gzipped = true,
		.has_links = true,
		.encode = otlp_encode,
	},
};

const struct destination *destination_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(destinations); i++)
		if (!strcmp(destinations[i].name, name))
			return &destinations[i];
	return NULL;
}
