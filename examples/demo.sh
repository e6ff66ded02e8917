#!/bin/sh
# The demo: builds the shop (examples/shop), lets clients visit it, profiles it from outside, says
# where its requests spend their time, and leaves demo.html in the current folder.
#
#	examples/demo.sh [-fixed] [SECONDS]    -fixed: the shop with its two faults repaired
set -eu

say() { echo "demo: $*" >&2; }

fixed=
if [ "${1:-}" = -fixed ]; then
	fixed=-fixed
	shift
fi
# Three sales reports long.
seconds=${1:-6}
case $seconds in
"" | *[!0-9]*)
	say "usage: examples/demo.sh [-fixed] [SECONDS]"
	exit 2
	;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
gospect=${GOSPECT:-$root/build/gospect}
if [ ! -x "$gospect" ]; then
	say "there is no $gospect yet: run make"
	exit 1
fi

work=$(mktemp -d)
service=
clean_up() {
	[ -z "$service" ] || { kill "$service" 2>/dev/null && wait "$service"; } || true
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Any Go from 1.18 on builds the shop; when there is none, scripts/go-command brings one.
find_go() {
	go=$(command -v go || true)
	minor=$([ -z "$go" ] || "$go" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[ "${minor:-0}" -ge 18 ] || go=$("$root/scripts/go-command")
}

# Where Yama is on, only root may read a process that is not its child.
need_root() {
	scope=$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)
	[ "$(id -u)" != 0 ] && [ "$scope" != 0 ]
}

record() {
	as_root=
	if need_root; then
		say "kernel.yama.ptrace_scope is $scope here: looking at another process needs sudo"
		as_root=sudo
	fi
	# Two recordings at the same time: a page for people, and a file for go tool pprof.
	$as_root "$gospect" record -p "$service" -d "$seconds" -o "$work/demo.pb.gz" 2>"$work/second" &
	second=$!
	$as_root "$gospect" record -p "$service" -d "$seconds" -o demo.html
	[ -z "$as_root" ] || sudo chown "$(id -u):$(id -g)" demo.html "$work/demo.pb.gz"
	wait "$second" || {
		cat "$work/second" >&2
		exit 1
	}
}

find_go
[ -n "${HOME:-}" ] && mkdir -p "$HOME/.cache" 2>/dev/null && [ -w "$HOME/.cache" ] ||
	export GOCACHE="$work/gocache" GOPATH="$work/gopath"
say "building examples/shop with $("$go" env GOVERSION)"
(cd "$root/examples/shop" && GOFLAGS= CGO_ENABLED=0 "$go" build -buildvcs=false -ldflags='-s -w' -o "$work/shop" .)

: >"$work/said"
"$work/shop" -load 40 $fixed >"$work/said" 2>"$work/log" &
service=$!
waited=0
until grep -q serves "$work/said"; do
	waited=$((waited + 1))
	if [ "$waited" -gt 100 ] || ! kill -0 "$service" 2>/dev/null; then
		say "the shop did not start:"
		cat "$work/log" >&2
		exit 1
	fi
	sleep 0.1
done
sed 's/^/demo: /' "$work/said" >&2
sleep 1
say "40 clients visit it; gospect looks on for $seconds s. It is a stripped program that knows nothing of it"
record

kill "$service"
wait "$service" || true
service=
GOFLAGS= "$go" tool pprof -traces -unit=ms -sample_index=wall "$work/demo.pb.gz" 2>/dev/null |
	awk -f "$root/examples/where.awk"
echo
echo "what the clients saw:"
sed -n '/^route/,$ { /^[a-z]/p }' "$work/log" | sed 's/^/  /'
echo
echo "the whole picture: file://$(pwd | sed 's/%/%25/g; s/ /%20/g')/demo.html"
