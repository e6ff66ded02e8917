/*
 * Two profiles as one: the samples of the earlier one come behind those of the other, with sampleSide
 * 1. Numbers of strings that the later one has stay as they are.
 */

const BEFORE = 1;
const MEASURES = { share: "share", rate: "time a second", count: "count" };

function joined(a, b, map = x => x) {
	const ret = new a.constructor(a.length + b.length);
	ret.set(a);
	for (let i = 0; i < b.length; i++)
		ret[a.length + i] = map(b[i]);
	return ret;
}

function joinedNodes(after, before) {
	const shift = after.nodeParent.length - 1, lines = after.lineFunction.length;
	return {
		nodeParent: joined(after.nodeParent, before.nodeParent.subarray(1), node => node ? node + shift : 0),
		nodeLine: joined(after.nodeLine, before.nodeLine.subarray(1), line => line + lines),
		sampleNode: joined(after.sampleNode, before.sampleNode, node => node ? node + shift : 0),
	};
}

function comparedProfile(after, before) {
	const index = new Map(after.strings.map((s, i) => [s, i])), strings = after.strings.slice();
	const string = before.strings.map(s => {
		if (!index.has(s))
			index.set(s, strings.push(s) - 1);
		return index.get(s);
	});
	const columns = {};
	for (const name of ["sampleState", "sampleKind", "sampleAwaits", "count", "wall", "cpu", "idleCount", "idleWall", "lineNumber"])
		columns[name] = joined(after[name], before[name]);
	for (const name of ["sampleWait", "lineFunction", "lineFile"])
		columns[name] = joined(after[name], before[name], s => string[s]);
	return {
		...after, ...columns, ...joinedNodes(after, before), before, strings, goroutines: null, samples: after.samples + before.samples,
		label_sets: [...after.label_sets, ...before.label_sets],
		sampleLabels: joined(after.sampleLabels, before.sampleLabels, set => set + after.label_sets.length),
		sampleSide: joined(new Uint8Array(after.samples), new Uint8Array(before.samples), () => BEFORE),
	};
}

/* What is compared: the values of each side in the same measure, and how they are said. */
class Comparison {
	constructor(profile, filtered, { measure, metric }) {
		const side = profile.sampleSide, { values } = filtered;
		const sums = [0, 0];
		values.forEach((value, i) => { sums[side[i]] += value; });
		this.measure = measure;
		this.unit = measure !== "rate" ? "" : metric === "cpu" ? " cores" : " goroutines";
		const whole = { share: sums, rate: [profile.duration_ns, profile.before.duration_ns], count: [1, 1] }[measure];
		this.after = values.map((value, i) => side[i] === BEFORE || !whole[0] ? 0 : value / whole[0]);
		this.before = values.map((value, i) => side[i] !== BEFORE || !whole[1] ? 0 : value / whole[1]);
	}

	format(value) {
		if (this.measure === "share")
			return formatShare(value, 1);
		return this.measure === "rate" && value ? digits(value) : formatInteger(value);
	}

	formatChange(before, after) {
		const by = difference(before, after), size = this.format(Math.abs(by));
		const words = this.measure === "share" ? size.replace("< ", "<").replace("%", "points") : size;
		return (by > 0 ? "+" : by < 0 ? "−" : "±") + words;
	}

	/* For tables of numbers: [name, words]. */
	rows(before, after) {
		return [["before", this.format(before) + this.unit], ["after", this.format(after) + this.unit],
			["change", this.formatChange(before, after) + this.unit]];
	}
}

/* What is less than one in a billion is the error of a sum. */
function difference(before, after) {
	const by = after - before;
	return Math.abs(by) < 1e-9 * Math.max(before, after) ? 0 : by;
}

/* From -1, gone, to 1, new. */
function changeOf(before, after) {
	return before || after ? (after - before) / Math.max(before, after) : 0;
}

/* The profile in the text of another page of gospect. */
function profileOfPage(text) {
	const page = new DOMParser().parseFromString(text, "text/html");
	const data = page.getElementById("profile");
	if (!data)
		throw new Error("it is not an HTML file of gospect");
	return loadProfile(data.textContent);
}

/* A file that is dropped on the page is what it is compared with. */
function listenForFiles(compareWith) {
	const over = is => document.body.classList.toggle("dropping", is);
	addEventListener("dragover", event => {
		event.preventDefault();
		over(true);
	});
	addEventListener("dragleave", () => over(false));
	addEventListener("drop", event => {
		event.preventDefault();
		over(false);
		if (event.dataTransfer.files.length)
			compareWith(event.dataTransfer.files[0]);
	});
	$("compare").addEventListener("click", () => $("compare-file").click());
	$("compare-file").addEventListener("change", event => event.target.files.length && compareWith(event.target.files[0]));
}
