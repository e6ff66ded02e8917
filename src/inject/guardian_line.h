/* The messages of a surgeon to its guardian (inject/guardian.h), which reads the other end. */
#ifndef INJECT_GUARDIAN_LINE_H
#define INJECT_GUARDIAN_LINE_H

#include <stdbool.h>
#include <sys/types.h>

/* A byte each. The end of the line is the end of the surgeon, too. */
enum { GUARDIAN_LET_GO, GUARDIAN_HOLDS, GUARDIAN_DISMISSED };

/* To this process, which was just forked; takes the descriptor. */
void guardian_line_open(pid_t pid, int channel);

/* The target is clean: ends the guardian. Does nothing without one. */
void guardian_dismiss(void);
/* Makes it begin now. Returns its pid; 0: no guardian. */
pid_t guardian_take_over(void);
/* Its pid, until it was dismissed or has taken over; 0: no guardian. */
pid_t guardian_pid(void);

/* Threads of the target are held from now on, or no more. Any thread may call it. */
void guardian_note_holding(bool holding);

#endif
