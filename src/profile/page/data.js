/* The profile as it lies in the page: see html.c for the format. */

const STATES = ["running", "runnable", "syscall", "waiting"];
const WAITING = 3;
const FORMAT = 4;

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

/* Single goroutines, their parts of samples, and the steps of these: as in the profile's timeline. */
function loadGoroutines(g, columns) {
	const { rows, parts, steps } = g;
	const words = n => columns.read(new Uint32Array(n)), values = n => columns.read(new Float64Array(n));

	g.ids = values(rows);
	g.starts = words(rows);
	g.longest = values(rows);
	g.partRow = words(parts);
	g.partSample = words(parts);
	g.partTime = values(parts);
	g.stepRow = words(steps);
	for (let i = 1; i < steps; i++)
		g.stepRow[i] += g.stepRow[i - 1];
	g.stepColumn = words(steps);
	g.stepTime = values(steps);
	g.rowSteps = Array.from(g.ids, () => []);
	g.stepRow.forEach((part, i) => g.rowSteps[g.partRow[part]].push(i));
	return g;
}

async function loadProfile(text) {
	const p = JSON.parse(text);
	if (p.version !== FORMAT)
		throw new Error(`it has format ${p.version} and this page ${FORMAT}; write both with the same gospect`);
	const columns = new Columns(await inflate(bytesOfBase64(p.packed)));
	const { nodes, lines, samples, steps } = p.sizes;
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
	p.longest = values();
	p.longestGoroutine = values();
	p.stepRow = words(steps);
	for (let i = 1; i < steps; i++)
		p.stepRow[i] += p.stepRow[i - 1];
	p.stepColumn = words(steps);
	p.stepTime = columns.read(new Float64Array(steps)); /* in microseconds */
	p.samples = samples;
	p.goroutines = p.goroutines ? loadGoroutines(p.goroutines, columns) : null;
	p.sampleKind = kindsOfSamples(p);
	p.sampleSide = new Uint8Array(samples);
	return p;
}
