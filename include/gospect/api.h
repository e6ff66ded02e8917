/* The declarations that all other headers of libgospect include. */
#ifndef GOSPECT_API_H
#define GOSPECT_API_H

#include <stddef.h>
#include <stdint.h>

#define GOSPECT_API __attribute__((visibility("default")))
#define GOSPECT_MUST_CHECK __attribute__((warn_unused_result))

#ifdef __cplusplus
#define GOSPECT_BEGIN extern "C" {
#define GOSPECT_END }
#else
#define GOSPECT_BEGIN
#define GOSPECT_END
#endif

#endif
