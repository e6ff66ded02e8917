/*
 * Single goroutines (goroutine_rows.h): those that used most CPU time, and those with the longest
 * waits. Each is a row with a strip of its kinds of time; a click leaves only this goroutine.
 */

const GOROUTINES_AT_ONCE = 50, STRIP_HEIGHT = 10;
const ORDERS = { busiest: "busiest", longest: "longest wait", label: "label" };

/* When a goroutine's time was: steps of its samples. */
class GoroutineTimeline extends Timeline {
	constructor(profile, row) {
		super(profile, profile.goroutines, stepsOfGoroutine(profile.goroutines, row));
	}
}

function stepsOfGoroutine({ stepRow, stepColumn, stepTime, partSample, rowSteps }, row) {
	const steps = rowSteps[row];
	return {
		stepRow: steps.map(i => partSample[stepRow[i]]), stepColumn: steps.map(i => stepColumn[i]), stepTime: steps.map(i => stepTime[i]),
	};
}

/* A goroutine's time of each kind in each column: [kind][column]. */
function kindsOfGoroutine({ goroutines, sampleKind }, row) {
	const { stepRow, stepColumn, stepTime, partSample, rowSteps, columns } = goroutines, steps = rowSteps[row];
	const kinds = KINDS.map(() => new Float64Array(columns + 1));
	for (let k = 0; k + 1 < steps.length; k++) {
		const i = steps[k], next = steps[k + 1];
		if (stepTime[i] && stepRow[next] === stepRow[i])
			kinds[sampleKind[partSample[stepRow[i]]]].subarray(stepColumn[i], stepColumn[next]).forEach((time, column, of) => { of[column] = time + stepTime[i]; });
	}
	return kinds;
}

/* A goroutine alone: which part of each sample is its time, and when that was. */
class OneGoroutine {
	constructor(profile, row) {
		const { partRow, partSample, partTime } = profile.goroutines;
		this.timeline = new GoroutineTimeline(profile, row);
		this.shares = new Float64Array(profile.samples);
		partRow.forEach((of, i) => {
			if (of === row && profile.wall[partSample[i]])
				this.shares[partSample[i]] = partTime[i] / profile.wall[partSample[i]];
		});
	}
}

/* "user=ann route=pay", of the set with most of the time. */
function labelsOfGoroutines(profile) {
	const { partRow, partSample, partTime, ids } = profile.goroutines, times = Array.from(ids, () => new Map());
	partRow.forEach((row, i) => {
		const set = profile.sampleLabels[partSample[i]];
		if (profile.label_sets[set].length)
			times[row].set(set, (times[row].get(set) || 0) + partTime[i]);
	});
	return times.map(sets => {
		const most = [...sets].sort((a, b) => b[1] - a[1])[0], texts = [];
		for (let i = 0; most && i < profile.label_sets[most[0]].length; i += 2)
			texts.push(profile.label_sets[most[0]].slice(i, i + 2).join("="));
		return texts.join(" ");
	});
}

/* All that the list says of each goroutine. */
function goroutinesOf(profile) {
	const { ids, starts, longest, partRow, partSample, partTime } = profile.goroutines, labels = labelsOfGoroutines(profile);
	const rows = Array.from(ids, (id, row) => ({
		row, id: String(id), start: profile.strings[starts[row]] || "[unknown]", labels: labels[row], longest: longest[row],
		kinds: KINDS.map(() => 0), samples: [],
	}));
	partRow.forEach((row, i) => {
		rows[row].kinds[profile.sampleKind[partSample[i]]] += partTime[i];
		rows[row].samples.push(partSample[i]);
	});
	return rows;
}

class GoroutineList {
	constructor(profile, on) {
		this.on = on;
		this.limit = GOROUTINES_AT_ONCE;
		this.use(profile);
		$("goroutine-order").append(...Object.entries(ORDERS).map(([value, text]) => new Option(text, value)));
		$("goroutine-order").addEventListener("change", e => on.order(e.target.value));
		$("more-goroutines").addEventListener("click", () => {
			this.limit += GOROUTINES_AT_ONCE;
			this.draw();
		});
		new ResizeObserver(() => this.drawStrips()).observe($("goroutines"));
	}

	use(profile) {
		this.profile = profile;
		this.all = profile.goroutines ? goroutinesOf(profile) : [];
	}

	get isKnown() {
		return this.all.length > 0;
	}

	order(by) {
		const busiest = (a, b) => b.kinds[0] - a.kinds[0] || b.longest - a.longest;
		return {
			busiest,
			longest: (a, b) => b.longest - a.longest || busiest(a, b),
			label: (a, b) => (a.labels === "") - (b.labels === "") || a.labels.localeCompare(b.labels, "en") || busiest(a, b),
		}[by];
	}

	/* Of all goroutines those with time in `values`, which the filters leave. */
	show({ values, order, goroutine, palette }) {
		this.rows = this.all.filter(row => row.id === goroutine || row.samples.some(sample => values[sample] > 0)).sort(this.order(order));
		Object.assign(this, { goroutine, palette });
		$("goroutine-order").value = order;
		this.draw();
	}

	draw() {
		const { others, others_cpu_ns } = this.profile.goroutines, shown = this.rows.slice(0, this.limit);
		$("goroutine-count").textContent = `${formatInteger(this.rows.length)} of ${formatCount(this.all.length + others, "goroutine")}`;
		$("goroutine-others").textContent = others ? `${formatCount(others, "other goroutine")} used ${formatTime(others_cpu_ns)} of CPU time in all. They have no row.` : "";
		keepingFocus($("goroutines"), () => $("goroutines").replaceChildren(...shown.map(row => this.line(row))));
		$("more-goroutines").hidden = this.rows.length <= this.limit;
		this.drawStrips();
	}

	line(row) {
		const wait = row.longest ? `, longest wait ${formatTime(row.longest)}` : "";
		const name = button("", () => this.on.choose(row.id === this.goroutine ? "" : row.id), { className: "link", title: `Only goroutine ${row.id}; again: all` });
		name.append(element("b", { textContent: row.id }), " ", ...breakable(withoutPath(row.start)));
		name.dataset.focus = row.id;
		name.setAttribute("aria-pressed", row.id === this.goroutine);
		const strip = element("canvas", { className: "strip", ariaLabel: KINDS.map((kind, i) => row.kinds[i] ? `${kind.title} ${formatTime(row.kinds[i])}` : "").filter(Boolean).join(", ") });
		strip.setAttribute("role", "img");
		strip.title = strip.ariaLabel;
		const line = element("li", {}, name, strip,
			element("p", { className: "quiet", textContent: `on CPU ${formatTime(row.kinds[0])}${wait}` }));
		if (row.labels)
			line.append(element("p", { className: "quiet labels", textContent: row.labels }));
		line.dataset.goroutine = row.id;
		return line;
	}

	drawStrips() {
		if (!this.rows || !$("goroutines").offsetParent)
			return;
		[...$("goroutines").children].forEach((line, i) => this.drawStrip(line.querySelector("canvas"), this.rows[i].row));
	}

	/* The kinds' parts of as many columns as can be distinguished, one on the other. */
	drawStrip(canvas, row) {
		const { palette, profile } = this, ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, context = canvas.getContext("2d");
		const { columns, width_ns } = profile.goroutines, kinds = kindsOfGoroutine(profile, row);
		const all = profile.duration_ns ? profile.duration_ns / width_ns : columns;
		const together = Math.max(1, Math.ceil(all / Math.max(1, width))), x = column => Math.min(width, Math.round(column / all * width));
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(STRIP_HEIGHT * ratio);
		context.scale(ratio, ratio);
		context.fillStyle = palette.same;
		context.fillRect(0, STRIP_HEIGHT - 1, width, 1);
		for (let column = 0; column < columns && column < all; column += together) {
			const parts = kinds.map(times => times.subarray(column, Math.min(column + together, columns)).reduce((a, b) => a + b, 0));
			const sum = parts.reduce((a, b) => a + b, 0), left = x(column), wide = Math.max(1, x(column + together) - left);
			let top = STRIP_HEIGHT;
			for (let kind = 0; kind < parts.length && sum > 1e-3; kind++) {
				const high = parts[kind] / sum * STRIP_HEIGHT;
				context.fillStyle = palette.kinds[kind];
				context.fillRect(left, top -= high, wide, high);
			}
		}
	}
}
