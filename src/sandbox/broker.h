/*
 * The broker: the half of gospect that keeps its privilege. It answers requests over a socket, one
 * at a time, and takes each as hostile: the process that sends them parses hostile bytes.
 *
 * It opens, for reading only:
 * - of the policy's process: its program, mappings and which of their pages are resident, auxv,
 *   status, threads and memory, and libraries and programs below its root; all of the same process,
 *   also when another process gets its number later;
 * - files that the user named, if they are regular files or folders;
 * - any folder, and regular files that are ELF files by their first bytes;
 * - what the kernel says of the machine (/proc/sys, /sys, /proc/kallsyms and the like).
 * It opens perf events of threads of the policy's process, and does what its services do.
 */
#ifndef SANDBOX_BROKER_H
#define SANDBOX_BROKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/door.h"
#include "base/error.h"

/* Answers with the contents of *call; an error becomes the caller's. Closes the descriptors that
 * were sent. */
struct broker_service {
	struct error *(*serve)(void *arg, struct door_call *call);
	void *arg;
};

struct broker_policy {
	pid_t pid;                /* 0: no process */
	const char *const *named; /* paths that the user gave; NULL-terminated, or NULL */
	struct broker_service services[DOOR_SERVICES]; /* without a function: no service */
	int keep; /* a descriptor that services need, at least 3; 0: none. The broker's process
		   * closes all others */
	bool serves_alone; /* offers its services only, and opens no file */
};

struct broker;

/* Binds to the policy's process as it is now. Keeps the policy. */
struct error *broker_create(const struct broker_policy *policy, struct broker **ret) must_check;
void broker_destroy(struct broker *b);

/* Answers one request. False: the other end is closed, or sends nonsense. */
bool broker_answer(struct broker *b, int socket);

/* The other end: a door that leads through this socket, for as long as the process lives. */
const struct door *broker_door(int socket);

/* One request for a service, over such a socket. */
struct error *broker_ask(int socket, enum door_service service, struct door_call *call) must_check;

#endif
