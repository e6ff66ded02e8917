/*
 * When the time of each sample passed (timeline.h): from a step on, each column of its row has so much
 * time, up to the row's next step.
 */

class Timeline {
	/* `steps` are those of all samples, or of a goroutine's. */
	constructor(profile, { width_ns, columns } = profile.timeline, steps = profile) {
		this.profile = profile;
		this.steps = steps;
		this.width = width_ns;
		/* The last column ends with the recording. */
		this.length = Math.max(profile.duration_ns, 0) || columns * width_ns;
		this.columns = columns;
		this.rowTime = this.timeIn(null);
	}

	/* Nothing is to be seen in less. */
	get isKnown() {
		return !this.profile.before && this.columns > 3;
	}

	/* Calls each(row, first column, last column + 1, time in a column) for all that is not empty. */
	forEach(each) {
		const { stepRow, stepColumn, stepTime } = this.steps;
		for (let i = 0; i + 1 < stepRow.length; i++)
			if (stepTime[i] && stepRow[i + 1] === stepRow[i])
				each(stepRow[i], stepColumn[i], stepColumn[i + 1], stepTime[i]);
	}

	/* The time of each row from `range[0]` to `range[1]`, in columns and parts of them; of all without. */
	timeIn(range) {
		const times = new Float64Array(this.profile.samples), [from, to] = range || [0, Infinity];
		this.forEach((row, first, end, time) => {
			const columns = Math.min(end, to) - Math.max(first, from);
			if (columns > 0)
				times[row] += columns * time;
		});
		return times;
	}

	/*
	 * Which part of each sample was in this range of time, in ns; null without. When of a sample is not
	 * known, that was evenly.
	 */
	parts(range) {
		if (!range || !this.isKnown)
			return null;
		if (this.partsOf?.join() === range.join())
			return this.partsIn;
		const inside = this.timeIn(range.map(ns => ns / this.width)), evenly = (range[1] - range[0]) / this.length;
		this.partsOf = range;
		this.partsIn = inside.map((time, row) => this.rowTime[row] ? Math.min(1, time / this.rowTime[row]) : Math.min(1, evenly));
		return this.partsIn;
	}

	/* The time of each kind in each column, in ns, when each sample has so much in all: [kind][column]. */
	kinds(values) {
		const { sampleKind } = this.profile, { rowTime, columns } = this;
		const kinds = KINDS.map(() => new Float64Array(columns + 1));
		this.forEach((row, first, end, time) => {
			if (!values[row])
				return;
			const value = time * values[row] / rowTime[row], sums = kinds[sampleKind[row]];
			sums[first] += value;
			sums[Math.min(end, columns)] -= value;
		});
		for (const sums of kinds)
			for (let i = 1; i <= columns; i++)
				sums[i] += sums[i - 1];
		return kinds;
	}
}

const HEAT_ROW = 12, LEAST_RANGE = 0.002; /* of all time */

/* A row for each kind of time: the more of it, the stronger its colour. A range can be chosen. */
class HeatMap {
	constructor(on) {
		this.on = on;
		this.canvas = $("heat");
		this.context = this.canvas.getContext("2d");
		this.range = null;
		this.listen();
	}

	listen() {
		const { canvas } = this;
		new ResizeObserver(() => this.draw()).observe(canvas);
		canvas.addEventListener("pointerdown", e => this.press(e));
		canvas.addEventListener("pointermove", e => this.move(e));
		canvas.addEventListener("pointerup", e => this.release(e));
		canvas.addEventListener("pointercancel", () => { this.from = undefined; this.show(this.shown); });
		canvas.addEventListener("pointerleave", e => this.on.hover(null, e));
		canvas.addEventListener("keydown", e => this.key(e));
	}

	timeAt(event) {
		const box = this.canvas.getBoundingClientRect();
		return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * this.timeline.length;
	}

	press(event) {
		if (event.button)
			return;
		this.canvas.setPointerCapture(event.pointerId);
		this.from = this.timeAt(event);
	}

	move(event) {
		const at = this.timeAt(event);
		if (this.from !== undefined) {
			this.range = [this.from, at].sort((a, b) => a - b);
			this.draw();
		}
		this.on.hover({ text: this.describe(at) }, event);
	}

	/* Whole columns; a click without a drag gives all of the time back. */
	release(event) {
		if (this.from === undefined)
			return;
		const { length, width } = this.timeline, range = [this.from, this.timeAt(event)].sort((a, b) => a - b);
		this.from = undefined;
		if (range[1] - range[0] < LEAST_RANGE * length)
			return this.on.range(null);
		const [from, to] = range.map(at => Math.min(length, Math.round(at / width) * width));
		this.on.range([Math.min(from, length - width), Math.max(to, from + width)]);
	}

	/* Arrows move the range, with Shift its end; without one they make it. */
	key(event) {
		const { length } = this.timeline, step = Math.max(length / 100, this.timeline.width);
		const by = { ArrowLeft: -step, ArrowRight: step }[event.key], [from, to] = this.range || [];
		let range;
		if (event.key === "Home" || event.key === "End")
			range = this.range ? event.key === "Home" ? [0, to - from] : [length - to + from, length] : [0, length / 20];
		else if (!by)
			return;
		else if (!this.range)
			range = by > 0 ? [0, length / 20] : [length - length / 20, length];
		else if (event.shiftKey)
			range = [from, Math.max(from + step, Math.min(length, to + by))];
		else
			range = [from, to].map(at => at + Math.max(-from, Math.min(length - to, by)));
		event.preventDefault();
		event.stopPropagation();
		this.on.range(range);
	}

	/* `values` is the time of each sample, before a range is chosen. */
	show({ timeline, values, range, palette, format }) {
		this.shown = { timeline, values, range, palette, format };
		if (this.values !== values || this.timeline !== timeline)
			this.kinds = timeline.kinds(values);
		Object.assign(this, { timeline, values, range, palette, format });
		this.rows = KINDS.map((_, i) => i).filter(i => this.kinds[i].some(time => time > 1e-6));
		this.canvas.style.height = Math.max(1, this.rows.length) * HEAT_ROW + "px";
		this.draw();
	}

	draw() {
		const { canvas, context, timeline } = this, ratio = window.devicePixelRatio || 1;
		if (!timeline)
			return;
		const width = canvas.clientWidth, height = this.rows.length * HEAT_ROW;
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.rows.forEach((kind, row) => this.drawRow(kind, row * HEAT_ROW, width));
		if (this.range)
			this.drawRange(width, height);
		this.drawAxis();
	}

	/* As many columns as can be distinguished: whole ones together, so that none looks like more. */
	drawRow(kind, top, width) {
		const { context, palette, timeline } = this, sums = this.kinds[kind], all = timeline.length / timeline.width;
		const together = Math.max(1, Math.ceil(all / Math.max(1, width))), x = i => Math.min(width, Math.round(i * together / all * width));
		const cells = new Float64Array(Math.ceil(Math.min(all, timeline.columns) / together));
		for (let column = 0; column < timeline.columns && column < all; column++)
			cells[Math.floor(column / together)] += sums[column] / Math.min(together, all - together * Math.floor(column / together));
		const most = cells.reduce((a, b) => Math.max(a, b), 0);
		context.fillStyle = palette.same;
		context.globalAlpha = 0.25;
		context.fillRect(0, top, width, HEAT_ROW - 1);
		context.fillStyle = palette.kinds[kind];
		for (let i = 0; i < cells.length; i++) {
			const part = most ? cells[i] / most : 0, high = Math.max(1, Math.round((HEAT_ROW - 1) * part));
			if (part < 0.005)
				continue;
			context.globalAlpha = 0.3 + 0.7 * part;
			context.fillRect(x(i), top + HEAT_ROW - 1 - high, Math.max(1, x(i + 1) - x(i)), high);
		}
		context.globalAlpha = 1;
	}

	drawRange(width, height) {
		const { context, palette, timeline } = this, [from, to] = this.range.map(at => at / timeline.length * width);
		context.globalAlpha = 0.72;
		context.fillStyle = palette.ground;
		context.fillRect(0, 0, from, height);
		context.fillRect(to, 0, width - to, height);
		context.globalAlpha = 1;
		context.fillStyle = palette.rootText;
		context.fillRect(Math.max(0, from - 1), 0, 2, height);
		context.fillRect(Math.min(width - 2, to - 1), 0, 2, height);
	}

	drawAxis() {
		const { length } = this.timeline, words = at => at ? formatTime(at) : "0";
		$("heat-axis").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map(part => element("span", { textContent: words(part * length) })));
		$("heat-kinds").replaceChildren(...this.rows.map(kind => element("span", { textContent: KINDS[kind].title })));
		$("heat-range").hidden = !this.shown.range;
		const range = this.shown.range;
		if (range)
			$("heat-range-text").textContent = `${words(range[0])} to ${words(range[1])}`;
		this.canvas.setAttribute("aria-valuetext", range ? `from ${words(range[0])} to ${words(range[1])}` : "all of the time");
	}

	/* What there is at a moment, as lines. */
	describe(at) {
		const { timeline, kinds } = this, column = Math.min(timeline.columns - 1, Math.floor(at / timeline.width));
		const width = Math.min(timeline.width, Math.max(1, timeline.length - column * timeline.width));
		const rows = this.rows.map(kind => [kind, kinds[kind][column] / width]).filter(([, count]) => count > 0.005);
		return [element("strong", { textContent: `at ${formatTime(column * timeline.width)}` }),
			...rows.map(([kind, count]) => element("p", { className: "division" }, swatch(kind), element("span", { textContent: KINDS[kind].title }),
				element("em", { textContent: this.format(count) })))];
	}
}
