/* What the page of `gospect memory` has beside the treemap. */
function showFacts() {
	const name = data.process.exe.split("/").pop(), gc = data.gc;
	document.title = name + " memory";
	byId("command").textContent = name;
	const facts = [`pid ${data.process.pid}`, `${amount(data.rss_bytes)} ${data.process.is_core ? "mapped" : "resident"}`];
	if (data.cgroup.charge_bytes !== null)
		facts.push(`control group: ${amount(data.cgroup.charge_bytes)}` + (data.cgroup.limit_bytes === null ? "" : ` of ${amount(data.cgroup.limit_bytes)}`));
	facts.push(`heap ${amount(gc.heap_bytes)}, goal ${gc.goal_bytes === null ? "none" : amount(gc.goal_bytes)}`);
	facts.push(gc.gogc < 0 ? "GOGC=off" : `GOGC=${gc.gogc}`);
	if (gc.memory_limit_bytes !== null)
		facts.push(`GOMEMLIMIT=${amount(gc.memory_limit_bytes)}`);
	byId("facts").textContent = facts.join(" · ");
	byId("advice").textContent = data.advice;
}

function showTables() {
	const creators = byId("creators"), metrics = byId("metrics");
	row(creators, "th", ["stacks", "frames", "goroutines", "created by"]);
	for (const c of data.stacks_by_creator.slice(0, 50))
		row(creators, "td", [amount(c.stack_bytes), amount(c.frame_bytes), c.goroutines, c.created_by]);
	for (const [name, bytes] of Object.entries(data.runtime_metrics))
		row(metrics, "td", [amount(bytes), name]);
}

showFacts();
showTables();
show();
