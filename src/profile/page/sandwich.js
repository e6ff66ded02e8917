/* One function between its callers (above, the function at their bottom) and its callees (below). */

class Sandwich {
	constructor(profile, palette, on) {
		this.profile = profile;
		this.callers = new Graph(profile, palette, $("callers-scroller"), on);
		this.callees = new Graph(profile, palette, $("callees-scroller"), on);
		this.callers.flipped = this.callers.inverted = true;
		this.callers.rootIsFunction = this.callees.rootIsFunction = true;
	}

	get graphs() {
		return [this.callers, this.callees];
	}

	use(profile) {
		this.profile = profile;
		this.graphs.forEach(graph => graph.use(profile));
	}

	/* `fill` gives a tree the time of the samples that have the function. */
	show(name, trees, fill, match) {
		const func = this.profile.strings.indexOf(name), around = trees.around(func);
		for (const [graph, tree] of [[this.callers, around.callers], [this.callees, around.callees]]) {
			fill(tree, around.has);
			tree.func[0] = func;
			graph.rootTitle = name;
			graph.match = match;
			graph.show(tree, 0);
		}
		/* Few callers leave the room to the callees. */
		this.callers.scroller.style.flexBasis = this.callers.tree.depth() * ROW + 6 + "px";
		this.callers.scroller.scrollTop = this.callers.scroller.scrollHeight;
		$("sandwich-name").textContent = name;
	}
}
