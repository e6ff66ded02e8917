/* Times in nanoseconds, shares and counts, for people: two or three significant digits. */

function formatTime(ns) {
	const units = [[3.6e12, "h", 7200e9], [60e9, "min", 120e9], [1e9, "s", 1e9], [1e6, "ms", 1e6], [1e3, "µs", 1e3]];
	for (const [size, unit, from] of units)
		if (ns >= from)
			return digits(ns / size) + " " + unit;
	return ns ? Math.round(ns) + " ns" : "0";
}

function formatBytes(bytes) {
	let value = bytes, unit = 0;
	for (; value >= 999.5 && unit < 5; unit++)
		value /= 1024;
	return unit ? `${digits(value)} ${["", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}` : `${formatInteger(bytes)} B`;
}

function digits(x) {
	if (x >= 99.95)
		return formatInteger(x);
	return x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
}

function formatInteger(x) {
	return Math.round(x).toLocaleString("en");
}

/* What is nearly all is not 100 %. */
function formatShare(part, whole) {
	if (!whole || !part)
		return "0 %";
	const percent = 100 * part / whole;
	if (percent < 0.01)
		return "< 0.01 %";
	const nearly = percent >= 99 && percent < 99.95;
	return percent.toFixed(nearly ? 1 : percent >= 9.95 ? 0 : percent >= 0.995 ? 1 : 2) + " %";
}

function formatCount(count, noun) {
	return `${formatInteger(count)} ${noun}${Math.round(count) === 1 ? "" : "s"}`;
}

/* "2.70 goroutines", "1 goroutine" */
function formatAmount(x, noun) {
	return x === 1 ? `1 ${noun}` : `${digits(x)} ${noun}s`;
}
