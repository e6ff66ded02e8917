/*
 * Names of slices, and the texts of their details, in Perfetto's format. A generation defines those
 * that it uses, by numbers that are then their names.
 */
#ifndef GOTRACE_PERFETTO_NAMES_H
#define GOTRACE_PERFETTO_NAMES_H

#include "gotrace/perfetto_writer.h"

uint64_t perfetto_fixed_name(struct trace_writer *w, enum perfetto_name name);
/* A text of the trace. */
uint64_t perfetto_text_name(struct trace_writer *w, uint64_t text);
/* A name of these two that may be from the previous generation. */
uint64_t perfetto_name_again(struct trace_writer *w, uint64_t name);
/* "G7 main.worker" */
uint64_t perfetto_goroutine_name(struct trace_writer *w, struct life *life);
/* The same as a text; valid until the next one. */
const char *perfetto_goroutine_text(struct trace_writer *w, const struct life *life);
/* The start function; "" when it is unknown. *ret_number is the same for equal names. */
const char *perfetto_start_function(struct trace_writer *w, uint64_t pc, uint64_t *ret_number);
/* The text in w->text, for the request of this number. */
uint64_t perfetto_request_name(struct trace_writer *w, uint64_t request);

/* Texts of details; 0: there is none. */
uint64_t perfetto_labels(struct trace_writer *w, uint32_t text);
uint64_t perfetto_stack(struct trace_writer *w, uint64_t number);

/* Begins a generation, which has no names yet. w->generation is the caller's. */
void perfetto_forget_names(struct trace_writer *w);
/* Marks the texts that this generation or an open slice has. */
void perfetto_mark_texts(const struct trace_writer *w, struct texts *texts);

#endif
