/* What was recorded, and what is said when nothing of it is to be seen. */

const LARGE_ERROR = 2; /* points, as in the summary of `record` */

function describeRecording(p) {
	const seconds = p.duration_ns / 1e9, wall = p.wall.reduce((sum, value, i) => p.sampleSide[i] === BEFORE ? sum : sum + value, 0), facts = [p.go_version];
	document.title = (p.command || "profile") + " – gospect";
	$("command").textContent = p.command || "gospect";
	$("version").textContent = p.gospect;
	if (p.unit === "bytes" && p.period_ns > 1)
		facts.push(`one allocation in ${formatBytes(p.period_ns)} is sampled`);
	if (seconds)
		facts.push(formatTime(p.duration_ns) + (p.period_ns && !p.unit ? ` at ${Math.round(1e9 / p.period_ns)} Hz` : ""));
	if (wall && seconds && !p.unit)
		facts.push(`${digits(wall / p.duration_ns)} goroutines on average`);
	const error = Math.max(0, ...p.comments.map(comment => parseFloat(/±([\d.e+]+) points/.exec(comment)?.[1] ?? 0)));
	if (error >= LARGE_ERROR)
		facts.push(`shares accurate to ±${Math.round(error)} points`);
	if (p.before)
		facts.push(`compared with ${p.before.command || "another profile"}` + (p.before.time_ns ? ` of ${new Date(p.before.time_ns / 1e6).toLocaleString()}` : ""));
	$("facts").textContent = facts.filter(Boolean).join(" · ");
	$("recording").replaceChildren(...recordingRows(p).flatMap(([name, value]) =>
		[element("dt", { textContent: name }), element("dd", { textContent: value })]));
}

function recordingRows(p) {
	const rows = [["command", p.command], ["began", p.time_ns ? new Date(p.time_ns / 1e6).toLocaleString() : ""],
		["stacks", formatInteger(p.samples)]].filter(row => row[1]);
	for (const comment of p.comments) {
		const colon = comment.indexOf(": ");
		rows.push(colon > 0 && colon < 40 ? [comment.slice(0, colon), comment.slice(colon + 2)] : ["", comment]);
	}
	return rows;
}

/* Which filters leave nothing, each with a button that undoes it and what comes back then. */
function drawNothingLeft(page) {
	const { profile, view, filters } = page, isEmpty = !page.filtered.total && !page.filtered.before;
	$("empty").hidden = !isEmpty;
	if (!isEmpty)
		return;
	$("empty-why").textContent = profile.samples ? "No samples match these filters:" : whyNoSamples(profile);
	const rows = profile.samples ? filters.active(view) : [];
	$("empty-filters").replaceChildren(...rows.map(({ text, button: name, undo }) => {
		const back = filters.apply({ ...view, ...undo }).total;
		return element("li", {}, element("span", { textContent: text }), " ", button(name, () => page.change(undo), { className: "undo" }), " ",
			element("em", { textContent: back ? `brings back ${page.format(back)}` : "" }));
	}));
	$("empty-reset").hidden = rows.length < 2;
	$("empty-reset").onclick = () => page.change({ ...page.first(), tab: view.tab, showIdle: true }, true);
}

function whyNoSamples(profile) {
	const filter = profile.comments.find(comment => comment.startsWith("filter: "));
	return filter ? `No goroutine matched ${filter.slice(8)} during the recording.` :
		"The profile is empty: the program ended before the first sample, or only the runtime's own goroutines ran.";
}
