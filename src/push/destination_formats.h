/* The bodies of requests: one file a format; for destination.c. */
#ifndef PUSH_DESTINATION_FORMATS_H
#define PUSH_DESTINATION_FORMATS_H

#include "push/push_profiles.h"

struct error *pyroscope_encode(const struct push_segment *s, struct strbuf *ret) must_check;
struct error *parca_encode(const struct push_segment *s, struct strbuf *ret) must_check;
struct error *otlp_encode(const struct push_segment *s, struct strbuf *ret) must_check;

#endif
