/* Colours of boxes: the kinds of time, or one of a function's package. */

class Palette {
	constructor(profile) {
		this.profile = profile;
		this.mode = "wait";
		this.shades = new Map();
		this.readTheme();
	}

	use(profile) {
		this.profile = profile;
		this.shades.clear();
	}

	readTheme() {
		const style = getComputedStyle(document.documentElement);
		const get = name => style.getPropertyValue(name).trim();
		this.kinds = KINDS.map(kind => get("--kind-" + kind.id));
		this.strips = this.kinds.map(colour => mixed(colour, [0, 0, 0], 0.16));
		this.text = get("--box-text");
		this.ground = get("--panel");
		this.rest = get("--box-rest");
		this.root = get("--box-root");
		this.rootText = get("--text");
		this.mark = get("--mark");
		this.markText = get("--mark-text");
		this.focus = get("--focus");
		this.same = get("--same");
		this.grown = rgbOf(get("--grown"));
		this.shrunk = rgbOf(get("--shrunk"));
		this.packageLight = get("--package-light");
		this.shades.clear();
	}

	/* A function's own shade of a colour, so that neighbours differ. */
	shade(colour, func) {
		const key = colour + func % 5;
		let shade = this.shades.get(key);
		if (!shade) {
			const by = [0, 4, 8, -3, 12][func % 5];
			shade = mixed(colour, by < 0 ? [0, 0, 0] : [255, 255, 255], Math.abs(by) / 100);
			this.shades.set(key, shade);
		}
		return shade;
	}

	/* From -1, gone, to 1, new: the more of a colour. */
	change(by) {
		return mixed(this.same, by > 0 ? this.grown : this.shrunk, Math.abs(by) ** 0.7);
	}

	package(func) {
		const name = packageOf(this.profile.strings[func]);
		let colour = this.shades.get(name);
		if (!colour) {
			let hash = 7;
			for (let i = 0; i < name.length; i++)
				hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
			const grey = name === "runtime" || name.startsWith("internal/");
			colour = `hsl(${(hash >>> 8) % 360} ${grey ? 8 : 36}% ${this.packageLight})`;
			this.shades.set(name, colour);
		}
		return colour;
	}
}

function rgbOf(colour) {
	return [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
}

function mixed(colour, with_, part) {
	return `rgb(${rgbOf(colour).map((c, i) => Math.round(c + (with_[i] - c) * part)).join(" ")})`;
}
