/* What of a profile the filters leave: kinds, wait reasons, labels, functions, and what is idle. */

/* A choice of values: all but some, or some only. */
class Choice {
	constructor(only = false, values = []) {
		this.only = only;
		this.values = new Set(values);
	}

	has(value) {
		return this.values.has(value) === this.only;
	}

	get isAll() {
		return !this.only && !this.values.size;
	}

	toggled(value) {
		const choice = new Choice(this.only, this.values);
		if (!choice.values.delete(value))
			choice.values.add(value);
		return choice.only && !choice.values.size ? new Choice() : choice;
	}

	toString() {
		return (this.only ? "=" : "!") + [...this.values].map(encodeURIComponent).join(",");
	}

	/* For people: "only a, b". */
	words(nameOf = value => value) {
		return (this.only ? "only " : "without ") + [...this.values].map(nameOf).join(", ");
	}

	static parse(text) {
		try {
			const values = text.slice(1).split(",").map(decodeURIComponent);
			return new Choice(text[0] === "=", text.length > 1 ? values : []);
		} catch {
			return new Choice();
		}
	}
}

const NO_VALUE = "(none)";

/* The labels of a profile: for each key the value of each label set. */
function labelKeys(profile) {
	const keys = new Map();
	profile.label_sets.forEach((set, index) => {
		for (let i = 0; i < set.length; i += 2) {
			if (!keys.has(set[i]))
				keys.set(set[i], new Array(profile.label_sets.length).fill(NO_VALUE));
			keys.get(set[i])[index] = set[i + 1];
		}
	});
	return keys;
}

/* Which samples have a function on their stack that matches: as pprof's focus and ignore. */
class StackMatches {
	constructor(profile) {
		this.profile = profile;
		this.known = new Map();
	}

	/* By node of the profile; null for an empty expression. */
	get(query) {
		if (!query)
			return null;
		if (!this.known.has(query)) {
			this.known.clear();
			this.known.set(query, this.find(matches(this.profile.strings, query)));
		}
		return this.known.get(query);
	}

	find(match) {
		const { nodeParent, nodeLine, lineFunction } = this.profile;
		const has = new Uint8Array(nodeParent.length);
		for (let i = 1; i < has.length; i++)
			has[i] = has[nodeParent[i]] || match[lineFunction[nodeLine[i]]] ? 1 : 0;
		return has;
	}
}

/*
 * Idle is what waits for work, and the part of all other time in which a goroutine stood at one place
 * from the first tick to the last.
 */
function idleTime(profile, metric) {
	const time = profile[metric], standing = { wall: profile.idleWall, count: profile.idleCount }[metric];
	return time.map((value, i) => profile.sampleAwaits[i] ? value : standing ? standing[i] : 0);
}

class Filters {
	constructor(profile) {
		this.profile = profile;
		this.keys = labelKeys(profile);
		this.focus = new StackMatches(profile);
		this.ignore = new StackMatches(profile);
		this.idle = {};
		this.timeline = new Timeline(profile);
	}

	/* The goroutine that is chosen; null: all of them. */
	oneOf({ goroutine }) {
		const row = goroutine && this.profile.goroutines ? this.profile.goroutines.ids.findIndex(id => String(id) === goroutine) : -1;
		if (row !== this.one?.row)
			this.one = { row, is: row < 0 ? null : new OneGoroutine(this.profile, row) };
		return this.one.is;
	}

	timelineOf(s) {
		return this.oneOf(s)?.timeline ?? this.timeline;
	}

	idleOf(metric) {
		return (this.idle[metric] ??= idleTime(this.profile, metric));
	}

	/*
	 * A view without what is idle would be as good as empty: it has a small part of the time, and that of
	 * less than a twentieth of a goroutine. A server of thousands of idle connections may work all the same.
	 */
	isNearlyAllIdle(metric) {
		const sum = values => values.reduce((a, b) => a + b, 0), all = sum(this.profile[metric]);
		const busy = all - sum(this.idleOf(metric)), { duration_ns } = this.profile;
		return (this.isIdle ??= busy < 0.005 * all && (metric === "count" || !duration_ns || busy < 0.05 * duration_ns));
	}

	/* For each set of labels the keys whose choice it fails. */
	failedLabels(labels) {
		return this.profile.label_sets.map((_, i) =>
			[...this.keys].filter(([key, of]) => labels.has(key) && !labels.get(key).has(of[i])).map(([key]) => key));
	}

	/*
	 * What of each sample is left, in `values`; and for each filter what its choices hold with all other
	 * filters as they are: kinds[], waits (string -> time), labels (key -> value -> time), idle. Of two
	 * profiles the sums are the later one's.
	 */
	apply(s) {
		const { sampleNode, sampleState, sampleKind, sampleWait, sampleLabels, sampleSide, samples, strings } = this.profile;
		const one = this.oneOf(s), all = this.profile[s.metric], time = one ? all.map((value, i) => value * one.shares[i]) : all;
		const idle = one ? new Float64Array(samples) : this.idleOf(s.metric);
		const focus = this.focus.get(s.focus), ignore = this.ignore.get(s.ignore);
		const failed = this.failedLabels(s.labels), setTime = new Map(), parts = this.timelineOf(s).parts(s.time);
		const ret = { values: new Float64Array(samples), kinds: KINDS.map(() => 0), waits: new Map(), idle: 0, total: 0, before: 0 };

		for (let i = 0; i < samples; i++) {
			if (focus && !focus[sampleNode[i]] || ignore && ignore[sampleNode[i]])
				continue;
			const kind = sampleKind[i], wait = sampleWait[i], labels = failed[sampleLabels[i]].length;
			const part = parts ? parts[i] : 1, value = part * (time[i] - (s.showIdle ? 0 : idle[i]));
			const kindOk = !s.kinds.size || s.kinds.has(kind);
			const waitOk = sampleState[i] !== WAITING || s.waits.has(strings[wait]);
			if (sampleSide[i] === BEFORE) {
				ret.values[i] = kindOk && waitOk && !labels ? value : 0;
				ret.before += ret.values[i];
				continue;
			}
			if (waitOk && !labels)
				ret.kinds[kind] += value;
			if (sampleState[i] === WAITING && kindOk && !labels)
				ret.waits.set(wait, (ret.waits.get(wait) || 0) + value);
			if (kindOk && waitOk && labels < 2)
				setTime.set(sampleLabels[i], (setTime.get(sampleLabels[i]) || 0) + value);
			if (!kindOk || !waitOk || labels)
				continue;
			ret.idle += part * idle[i];
			ret.total += value;
			ret.values[i] = value;
		}
		ret.all = ret.total + (s.showIdle ? 0 : ret.idle);
		ret.labels = this.sumLabels(setTime, failed);
		return ret;
	}

	sumLabels(setTime, failed) {
		const ret = new Map();
		for (const [key, of] of this.keys) {
			const sums = new Map(of.map(value => [value, 0]));
			for (const [set, sum] of setTime)
				if (!failed[set].length || failed[set][0] === key)
					sums.set(of[set], sums.get(of[set]) + sum);
			ret.set(key, sums);
		}
		return ret;
	}

	/* The filters that are on: what each says, what is its button's name, and what undoes it. */
	active(s) {
		const rows = [];
		const add = (text, button, undo) => rows.push({ text, button, undo });
		if (s.goroutine && this.oneOf(s))
			add(`Only goroutine ${s.goroutine}.`, "All goroutines", { goroutine: "" });
		else if (!s.showIdle)
			add("Idle goroutines are hidden.", "Show idle", { showIdle: true });
		if (s.time)
			add(`Only the time from ${formatTime(s.time[0])} to ${formatTime(s.time[1])}.`, "All of the time", { time: null });
		if (s.kinds.size)
			add(`Only ${[...s.kinds].map(kind => KINDS[kind].title).join(", ")}.`, "All kinds", { kinds: new Set() });
		if (!s.waits.isAll)
			add(`Blocked on: ${s.waits.words(wait => wait || NO_VALUE)}.`, "All wait reasons", { waits: new Choice() });
		for (const [key, choice] of s.labels)
			if (!choice.isAll)
				add(`Label ${key}: ${choice.words()}.`, `All of ${key}`, { labels: new Map([...s.labels].filter(([k]) => k !== key)) });
		for (const [name, does] of [["focus", "Only stacks with"], ["ignore", "Only stacks without"], ["hide", "Without frames that match"]])
			if (s[name])
				add(`${does} ${s[name]}.`, `Clear ${name}`, { [name]: "" });
		return rows;
	}
}
