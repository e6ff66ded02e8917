/*
 * A chip for each kind of time, which says its share and chooses it: the first click leaves only this
 * kind, a click on another adds that one. The last chip shows and hides what is idle.
 */

class Chips {
	constructor(on) {
		this.on = on;
		this.chips = KINDS.map((kind, i) => this.make(kind.id, kind.title, `${kind.title}: ${kind.does} (key ${i + 1})`, () => on.kind(i)));
		KINDS.forEach((_, i) => this.chips[i].prepend(swatch(i)));
		this.blocked = this.make("blocked", "blocked", "blocked: all that waits for something", () => on.blocked());
		this.group = element("div", { className: "chip-group", role: "group", ariaLabel: "blocked, by what it waits for" },
			this.blocked, ...BLOCKED.map(i => this.chips[i]));
		this.idle = this.make("idle", "Idle", "Show or hide idle goroutines: those that wait for work, or stay at one place during the whole recording (key h)", () => on.idle());
		this.idle.classList.add("idle");
		$("chips").append(this.chips[0], this.chips[1], this.chips[2], this.group, this.idle);
		this.parts = KINDS.map((kind, i) => element("i", { title: kind.title }));
		this.parts.forEach((part, i) => part.style.setProperty("background", `var(--kind-${KINDS[i].id})`));
		$("split").append(...this.parts);
	}

	make(name, title, help, onclick) {
		const chip = element("button", { type: "button", className: "chip", title: help, onclick },
			element("span", { textContent: title }), element("b", {}), element("em", {}));
		chip.dataset.name = name;
		return chip;
	}

	fill(chip, time, all, pressed, format) {
		chip.setAttribute("aria-pressed", pressed);
		chip.querySelector("b").textContent = formatShare(time, all);
		chip.querySelector("em").textContent = format(time);
		chip.dataset.time = Math.round(time);
		chip.hidden = !time && !pressed;
	}

	draw(filtered, view, format) {
		const { kinds } = filtered, all = kinds.reduce((a, b) => a + b, 0);
		const sum = BLOCKED.reduce((sum, i) => sum + kinds[i], 0);
		kinds.forEach((time, i) => {
			this.fill(this.chips[i], time, all, view.kinds.has(i), format);
			this.parts[i].style.flexGrow = all ? time / all : 0;
			this.parts[i].hidden = !time;
			this.parts[i].classList.toggle("off", view.kinds.size > 0 && !view.kinds.has(i));
		});
		this.fill(this.blocked, sum, all, BLOCKED.every(i => view.kinds.has(i)), format);
		this.group.hidden = BLOCKED.every(i => this.chips[i].hidden);
		this.fill(this.idle, filtered.idle, filtered.all, view.showIdle, format);
		$("chips").classList.toggle("some", view.kinds.size > 0);
	}
}

function describeKinds() {
	$("legend").replaceChildren(...KINDS.map((kind, i) => element("li", {}, swatch(i), " ", element("b", { textContent: kind.title }), " " + kind.does)));
}
