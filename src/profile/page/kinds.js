/*
 * The kinds of a goroutine's time. A kind has the same colour in every page. It follows from the
 * state and the wait reason, in the runtime's own words (runtime/runtime2.go, waitReasonStrings)
 * or those of Go's trace (runtime/traceruntime.go, traceBlockReasonStrings).
 */

const KINDS = [
	{ id: "running", title: "on-CPU", does: "executes Go code" },
	{ id: "runnable", title: "runnable", does: "is ready to run and waits for a CPU" },
	{ id: "syscall", title: "syscall", does: "is in a system call (file I/O, too) or in C code" },
	{ id: "locks", title: "locks", does: "waits for a mutex or a semaphore" },
	{ id: "channels", title: "channels", does: "waits for a channel, select, Cond or WaitGroup" },
	{ id: "network", title: "network", does: "waits for a connection" },
	{ id: "sleep", title: "sleep", does: "waits for a timer" },
	{ id: "other", title: "other", does: "waits for the garbage collector or the like" },
];
const BLOCKED = [3, 4, 5, 6, 7]; /* kinds of the state "waiting" */
const LOCKS = 3;
const OTHER = 7;

/* The first match decides. */
const WAIT_KINDS = [
	[/^(sync\.(RW)?Mutex\.|semacquire$|sync$)/, 3],
	[/^(chan |select\b|sync\.|coroutine$|synctest\.|forever$)/, 4],
	[/^(IO wait|network)$/, 5],
	[/^sleep$/, 6],
];

function kindOf(state, wait) {
	if (state !== WAITING)
		return state;
	const found = WAIT_KINDS.find(([reason]) => reason.test(wait));
	return found ? found[1] : OTHER;
}

/* How a goroutine waits for a semaphore: the runtime's own calls of semacquire. */
const PARKING = /^runtime\.(gopark|goparkunlock|semacquire1?)$/;

/* For a wait at this node: it is for a semaphore of the runtime's own, as of the garbage collector. A
 * stack of a trace begins with the caller of semacquire. */
function isOfRuntime({ nodeParent, nodeLine, lineFunction, strings }, node) {
	const name = node => strings[lineFunction[nodeLine[node]]];
	while (node && PARKING.test(name(node)))
		node = nodeParent[node];
	return node > 0 && name(node).startsWith("runtime.");
}

/* Each sample's kind. */
function kindsOfSamples(profile) {
	const ofWait = new Map();
	return Uint8Array.from(profile.sampleState, (state, i) => {
		if (state !== WAITING)
			return state;
		const wait = profile.sampleWait[i];
		if (!ofWait.has(wait))
			ofWait.set(wait, kindOf(WAITING, profile.strings[wait]));
		return ofWait.get(wait) === LOCKS && isOfRuntime(profile, profile.sampleNode[i]) ? OTHER : ofWait.get(wait);
	});
}

/* The kinds that waits for this reason have. */
function kindsOfWait({ sampleState, sampleWait, sampleKind }, wait) {
	const kinds = new Set();
	for (let i = 0; i < sampleWait.length; i++)
		if (sampleWait[i] === wait && sampleState[i] === WAITING)
			kinds.add(sampleKind[i]);
	return kinds;
}
