/*
 * Trees of functions, and what the filters leave of their time. A parent's number is smaller than its
 * children's, so that one pass from the end sums up a tree.
 */

class Tree {
	constructor() {
		this.parent = new Uint32Array(1024);
		this.func = new Uint32Array(1024);
		this.count = 1;
		this.table = new Uint32Array(4096);
	}

	/* The child of a node with this function, made when it is new. */
	child(parent, func) {
		const mask = this.table.length - 1;
		let slot = Math.imul(parent * 31 + func, 0x9e3779b1) >>> 7 & mask;
		for (let node; (node = this.table[slot]); slot = (slot + 1) & mask)
			if (this.parent[node] === parent && this.func[node] === func)
				return node;
		return this.append(parent, func, slot);
	}

	append(parent, func, slot) {
		const node = this.count++;
		if (node === this.parent.length) {
			this.parent = grown(this.parent);
			this.func = grown(this.func);
		}
		this.parent[node] = parent;
		this.func[node] = func;
		this.table[slot] = node;
		if (this.count * 2 > this.table.length)
			this.rehash();
		return node;
	}

	rehash() {
		const table = new Uint32Array(this.table.length * 4), mask = table.length - 1;
		for (let node = 1; node < this.count; node++) {
			let slot = Math.imul(this.parent[node] * 31 + this.func[node], 0x9e3779b1) >>> 7 & mask;
			while (table[slot])
				slot = (slot + 1) & mask;
			table[slot] = node;
		}
		this.table = table;
	}

	/* After the last child(): the lists of children, and room for time. */
	finish(leaves) {
		const n = this.count;
		this.table = null;
		this.leaves = leaves;
		this.first = new Uint32Array(n + 1);
		for (let i = 1; i < n; i++)
			this.first[this.parent[i] + 1]++;
		for (let i = 0; i < n; i++)
			this.first[i + 1] += this.first[i];
		const at = this.first.slice();
		this.children = new Uint32Array(Math.max(0, n - 1));
		for (let i = 1; i < n; i++)
			this.children[at[this.parent[i]]++] = i;
		this.self = new Float64Array(n);
		this.total = new Float64Array(n);
		this.sorted = new Map();
		return this;
	}

	sumUp(values) {
		const { parent, self, total, leaves } = this;
		this.values = values;
		self.fill(0);
		for (let i = 0; i < values.length; i++)
			self[leaves[i]] += values[i];
		total.set(self);
		for (let i = this.count - 1; i > 0; i--)
			total[parent[i]] += total[i];
		this.sorted.clear();
	}

	/*
	 * Two sides: before[] and after[] of each node. A leaf is as wide as the larger of the two, any other
	 * node as its own part and its callees together.
	 */
	compare(after, before) {
		const { parent, leaves, self, total, count } = this;
		this.values = after;
		this.after = new Float64Array(count);
		this.before = new Float64Array(count);
		for (let i = 0; i < after.length; i++) {
			this.after[leaves[i]] += after[i];
			this.before[leaves[i]] += before[i];
		}
		for (let i = 0; i < count; i++)
			self[i] = Math.max(this.after[i], this.before[i]);
		total.set(self);
		for (let i = count - 1; i > 0; i--) {
			total[parent[i]] += total[i];
			this.after[parent[i]] += this.after[i];
			this.before[parent[i]] += this.before[i];
		}
		this.sorted.clear();
	}

	/* Each node's time by category, after sumUp(): parts[node * categories + category]. */
	divide(values, categories, categoryOf) {
		const { parent, total, leaves, count } = this;
		const parts = (this.parts ??= new Float64Array(count * categories)).fill(0);
		for (let i = 0; i < values.length; i++)
			parts[leaves[i] * categories + categoryOf[i]] += values[i];
		for (let i = count - 1; i > 0; i--) {
			if (!total[i])
				continue;
			const to = parent[i] * categories, from = i * categories;
			for (let c = 0; c < categories; c++)
				parts[to + c] += parts[from + c];
		}
		this.categories = categories;
	}

	/* Children that have time left, most first. */
	childrenOf(node) {
		let list = this.sorted.get(node);
		if (!list) {
			const total = this.total;
			list = this.children.slice(this.first[node], this.first[node + 1]).filter(c => total[c] > 0);
			list.sort((a, b) => total[b] - total[a] || a - b);
			this.sorted.set(node, list);
		}
		return list;
	}

	/* Rows of those that have time left, the root's too. */
	depth() {
		const depths = new Uint32Array(this.count).fill(1);
		let deepest = 1;
		for (let i = 1; i < this.count; i++) {
			depths[i] = depths[this.parent[i]] + 1;
			if (this.total[i] > 0)
				deepest = Math.max(deepest, depths[i]);
		}
		return deepest;
	}

	path(node) {
		const path = [];
		for (; node; node = this.parent[node])
			path.push(node);
		return path.reverse();
	}

	find(functions) {
		let node = 0;
		for (const func of functions) {
			const next = this.childrenOf(node).find(c => this.func[c] === func);
			if (next === undefined)
				break;
			node = next;
		}
		return node;
	}

	/* The time of stacks in which a function matches, below (or at) a node, each counted once. */
	matchedTime(match, below) {
		const seen = new Uint8Array(this.count);
		let sum = 0;
		for (const node of this.path(below))
			if (match[this.func[node]])
				return this.total[below];
		seen[below] = 1;
		for (let i = 1; i < this.count; i++) {
			if (seen[this.parent[i]] !== 1)
				continue;
			if (match[this.func[i]])
				sum += this.total[i];
			else
				seen[i] = 1;
		}
		return sum;
	}
}

function grown(array) {
	const bigger = new Uint32Array(array.length * 2);
	bigger.set(array);
	return bigger;
}

/*
 * The trees of a profile: callees from the goroutines' starts, callers from where they are. Frames of
 * hidden functions are left out.
 */
class Trees {
	constructor(profile, hidden) {
		this.profile = profile;
		this.made = new Map();
		this.isRuntime = profile.strings.map(s => /^(runtime\.|internal\/|sync\.runtime_)/.test(s));
		this.build(hidden);
	}

	build(hidden) {
		const p = this.profile, tree = new Tree(), n = p.nodeParent.length;
		const merged = new Uint32Array(n);
		for (let i = 1; i < n; i++) {
			const func = p.lineFunction[p.nodeLine[i]], above = merged[p.nodeParent[i]];
			merged[i] = hidden?.[func] ? above : tree.child(above, func);
		}
		this.merged = merged;
		this.base = tree.finish(p.sampleNode.map(node => merged[node]));
		this.plainLeaves = this.base.leaves;
	}

	/* Where each sample ends when the runtime's frames at the end are folded into their caller. */
	foldedLeaves() {
		const { parent, func } = this.base;
		return this.plainLeaves.map(leaf => {
			let node = leaf;
			while (node && this.isRuntime[func[node]])
				node = parent[node];
			return node || leaf;
		});
	}

	get(callers, fold) {
		this.base.leaves = fold ? (this.folded ??= this.foldedLeaves()) : this.plainLeaves;
		if (!callers)
			return this.base;
		if (!this.made.has(fold))
			this.made.set(fold, this.invert());
		return this.made.get(fold);
	}

	/*
	 * One function: its callers, inverted, and its callees. The root of either is the function. A stack
	 * that has it several times counts from the outermost. `has` says which samples have it.
	 */
	around(func) {
		const { parent, count } = this.base, isOf = this.base.func;
		const leaves = this.isRuntime[func] ? this.plainLeaves : this.base.leaves;
		const callers = new Tree(), callees = new Tree();
		const above = new Uint32Array(count), below = new Uint32Array(count), inside = new Uint8Array(count);
		for (let i = 1; i < count; i++) {
			if (inside[parent[i]])
				[above[i], below[i]] = [above[parent[i]], callees.child(below[parent[i]], isOf[i])];
			else if (isOf[i] === func)
				above[i] = this.callersOf(parent[i], callers);
			inside[i] = inside[parent[i]] || isOf[i] === func;
		}
		const ends = of => leaves.map(leaf => of[leaf]);
		return { callers: callers.finish(ends(above)), callees: callees.finish(ends(below)), has: leaves.map(leaf => inside[leaf]) };
	}

	callersOf(node, tree) {
		let at = 0;
		for (; node; node = this.base.parent[node])
			at = tree.child(at, this.base.func[node]);
		return at;
	}

	invert() {
		const { parent, func, leaves, count } = this.base;
		const tree = new Tree(), inverted = new Uint32Array(count);
		const ends = leaves.map(leaf => {
			if (inverted[leaf])
				return inverted[leaf];
			let node = 0;
			for (let i = leaf; i; i = parent[i])
				node = tree.child(node, func[i]);
			return (inverted[leaf] = node);
		});
		return tree.finish(ends);
	}

	/* The lines at which a function stands in a node of the callees' tree: [line, time], most first. */
	linesOf(node, values) {
		const p = this.profile, times = this.lineTimes(values), sums = new Map();
		for (let i = 1; i < this.merged.length; i++)
			if (this.merged[i] === node && times[i] > 0 && p.lineFunction[p.nodeLine[i]] === this.base.func[node])
				sums.set(p.nodeLine[i], (sums.get(p.nodeLine[i]) || 0) + times[i]);
		return [...sums].sort((a, b) => b[1] - a[1]);
	}

	/*
	 * The lines of a function: { file, line, total, self }, most time first. A stack that has a line
	 * several times counts once.
	 */
	sourceLines(func, values) {
		const p = this.profile, times = this.lineTimes(values), sums = new Map();
		const sumOf = at => {
			const key = `${p.lineFile[at]}:${p.lineNumber[at]}`;
			if (!sums.has(key))
				sums.set(key, { file: p.strings[p.lineFile[at]], line: p.lineNumber[at], total: 0, self: 0 });
			return sums.get(key);
		};
		for (let i = 1; i < p.nodeParent.length; i++) {
			if (p.lineFunction[p.nodeLine[i]] !== func || !(times[i] > 0))
				continue;
			let above = p.nodeParent[i];
			while (above && p.nodeLine[above] !== p.nodeLine[i])
				above = p.nodeParent[above];
			sumOf(p.nodeLine[i]).total += above ? 0 : times[i];
		}
		for (let i = 0; i < values.length; i++) {
			const line = p.nodeLine[p.sampleNode[i]];
			if (p.sampleNode[i] && p.lineFunction[line] === func && values[i] > 0)
				sumOf(line).self += values[i];
		}
		return [...sums.values()].sort((a, b) => b.total - a.total);
	}

	lineTimes(values) {
		const p = this.profile;
		if (this.lineTimesOf === values)
			return this.times;
		this.lineTimesOf = values;
		this.times = new Float64Array(p.nodeParent.length);
		for (let i = 0; i < values.length; i++)
			this.times[p.sampleNode[i]] += values[i];
		for (let i = p.nodeParent.length - 1; i > 0; i--)
			this.times[p.nodeParent[i]] += this.times[i];
		return this.times;
	}

	/*
	 * All functions that have time, with the sums of these columns of the tree. A column but self counts
	 * recursion once.
	 */
	functions(columns) {
		const { parent, func, total, count } = this.base, n = this.profile.strings.length;
		const of = columns.map(name => this.base[name]), sums = columns.map(() => new Float64Array(n)), has = new Uint8Array(n);
		for (let i = 1; i < count; i++) {
			if (!total[i])
				continue;
			let above = parent[i];
			while (above && func[above] !== func[i])
				above = parent[above];
			columns.forEach((name, c) => { sums[c][func[i]] += name === "self" || !above ? of[c][i] : 0; });
			has[func[i]] = 1;
		}
		const rows = [];
		for (let f = 0; f < n; f++)
			if (has[f])
				rows.push({ func: f, ...Object.fromEntries(columns.map((name, c) => [name, sums[c][f]])) });
		return rows;
	}
}
