/* The profile as it lies in the page: see html.c for the format. */

const STATES = ["running", "runnable", "syscall", "waiting"];
const STATE_TITLES = ["on-CPU", "runnable", "syscall", "blocked"];
const WAITING = 3;

function bytesOfBase64(text) {
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(text);
	const binary = atob(text);
	const bytes = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++)
		bytes[i] = binary.charCodeAt(i);
	return bytes;
}

async function inflate(bytes) {
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Columns of unsigned LEB128 numbers, one behind the other. */
class Columns {
	constructor(bytes) {
		this.bytes = bytes;
		this.at = 0;
	}

	read(column, from = 0) {
		const bytes = this.bytes;
		let at = this.at;
		for (let i = from; i < column.length; i++) {
			let byte = bytes[at++], value = byte & 127, scale = 128;
			while (byte & 128) {
				byte = bytes[at++];
				value += (byte & 127) * scale;
				scale *= 128;
			}
			column[i] = value;
		}
		this.at = at;
		return column;
	}
}

async function loadProfile(text) {
	const p = JSON.parse(text);
	const columns = new Columns(await inflate(bytesOfBase64(p.packed)));
	const { nodes, lines, samples } = p.sizes;
	const words = (n, from) => columns.read(new Uint32Array(n), from);
	const values = () => columns.read(new Float64Array(samples));

	delete p.packed;
	p.lineFunction = words(lines);
	p.lineFile = words(lines);
	p.lineNumber = words(lines);
	p.nodeParent = words(nodes, 1);
	for (let i = 1; i < nodes; i++)
		p.nodeParent[i] = i - p.nodeParent[i];
	p.nodeLine = words(nodes, 1);
	p.sampleNode = words(samples);
	p.sampleState = words(samples);
	p.sampleWait = words(samples);
	p.sampleLabels = words(samples);
	p.sampleAwaits = words(samples); /* 1: waits for work */
	p.count = values();
	p.wall = values();
	p.cpu = values();
	p.idleCount = values();
	p.idleWall = values();
	p.samples = samples;
	return p;
}

/* Times in nanoseconds, and counts, for people. */
function formatTime(ns) {
	const units = [[3.6e12, "h", 7200e9], [60e9, "min", 120e9], [1e9, "s", 1e9], [1e6, "ms", 1e6], [1e3, "µs", 1e3]];
	for (const [size, unit, from] of units)
		if (ns >= from)
			return digits(ns / size) + " " + unit;
	return ns ? Math.round(ns) + " ns" : "0";
}

function digits(x) {
	if (x >= 1000)
		return Math.round(x).toLocaleString("en");
	return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

function formatShare(part, whole) {
	if (!whole || !part)
		return "0 %";
	const percent = 100 * part / whole;
	if (percent > 0 && percent < 0.01)
		return "< 0.01 %";
	return (percent >= 99.995 ? "100" : percent >= 10 ? percent.toFixed(1) : percent.toFixed(2)) + " %";
}

/* "example.com/a/b.(*T).M" is of package "example.com/a/b". */
function packageOf(name) {
	const bracket = name.indexOf("[");
	const head = bracket > 0 ? name.slice(0, bracket) : name;
	const dot = head.indexOf(".", head.lastIndexOf("/") + 1);
	return dot > 0 ? head.slice(0, dot) : head;
}

/* From the whole name to the barest: for boxes of any width. */
function shorterNames(name) {
	const slash = name.slice(0, (name.indexOf("[") + 1 || name.length + 1) - 1).lastIndexOf("/");
	const plain = slash >= 0 ? name.slice(slash + 1) : name;
	const dot = plain.indexOf(".");
	const bare = dot > 0 && !plain.startsWith("[") ? plain.slice(dot + 1) : plain;
	const method = bare.startsWith("(*") && bare.includes(").") ? bare.slice(bare.indexOf(").") + 2) : bare;
	return [...new Set([name, plain, bare, method])];
}
