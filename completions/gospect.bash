# bash completion for gospect
# The ids and the names of the Go processes.
_gospect_targets() {
	gospect ps 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { print $1; n = split($6, parts, "/"); print parts[n] }'
}

_gospect() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
	local target='-p --pid --container --exe' output='-o --output -f --format'
	local filter='--state --wait --func --label -g --goid'

	case $prev in
	-p | --pid | --follow)
		COMPREPLY=($(compgen -W "$(_gospect_targets)" -- "$cur"))
		return
		;;
	-o | --output | --core | --exe | --diff | --debug-dir | --token-file | --ca-file | --tls-cert | --tls-key | --client-ca | --token-file | --ca-file)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	--source)
		COMPREPLY=($(compgen -d -- "$cur"))
		return
		;;
	--to)
		COMPREPLY=($(compgen -W 'pyroscope parca otlp' -- "$cur"))
		return
		;;
	--spool)
		COMPREPLY=($(compgen -d -- "$cur"))
		return
		;;
	-f | --format)
		COMPREPLY=($(compgen -W 'text json folded folded-state pprof speedscope firefox html perf go perfetto dot' -- "$cur"))
		return
		;;
	--unwind)
		COMPREPLY=($(compgen -W 'pcsp fp dwarf' -- "$cur"))
		return
		;;
	--kind)
		COMPREPLY=($(compgen -W 'heap allocs block mutex goroutine goroutineleak threadcreate' -- "$cur"))
		return
		;;
	--state)
		COMPREPLY=($(compgen -W 'running runnable syscall waiting' -- "$cur"))
		return
		;;
	esac
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W 'ps dump waits why watch stack record top trace offcpu heap memory leaks push report symbolize unwind-info serve doctor --help --version' -- "$cur"))
		return
	fi
	# What is no option is a target.
	case $verb:$cur in
	dump:[!-]* | push:[!-]* | heap:[!-]* | leaks:[!-]* | memory:[!-]* | waits:[!-]* | why:[!-]* | watch:[!-]* | stack:[!-]* | record:[!-]* | top:[!-]* | trace:[!-]* | offcpu:[!-]* | serve:[!-]* | doctor:[!-]*)
		COMPREPLY=($(compgen -W "$(_gospect_targets)" -- "$cur"))
		return
		;;
	esac
	case $verb in
	dump)
		COMPREPLY=($(compgen -W "$target --core $output $filter --runtime --all --group --values --locals --raw --unwind -h --help" -- "$cur"))
		;;
	waits)
		COMPREPLY=($(compgen -W "$target --core $output --runtime -h --help" -- "$cur"))
		;;
	why)
		COMPREPLY=($(compgen -W "$target --core $output -d --duration -j --json -h --help" -- "$cur"))
		;;
	watch)
		COMPREPLY=($(compgen -W "${target% --exe} --when --do -o --output --keep -d --duration --interval --rest --host -h --help" -- "$cur"))
		;;
	leaks)
		COMPREPLY=($(compgen -W "$target --core $output --growth --exact --max-pause -h --help" -- "$cur"))
		;;
	heap)
		COMPREPLY=($(compgen -W "$target --core $output --kind --live --retained --exact --max-pause -n --rows -h --help" -- "$cur"))
		;;
	memory)
		COMPREPLY=($(compgen -W "$target --core $output -n --rows -h --help" -- "$cur"))
		;;
	push)
		COMPREPLY=($(compgen -W "-p --pid --container --host --children --to --token-file --header --ca-file --timeout --interval --label --budget --no-names -d --duration --spool --spool-size -h --help" -- "$cur"))
		;;
	stack)
		COMPREPLY=($(compgen -W "$target --core $output -g --goid --unwind -h --help" -- "$cur"))
		;;
	record)
		COMPREPLY=($(compgen -W "$target $output $filter -d --duration --every --keep -r --rate --budget --on-cpu --off-cpu --raw --runtime --all --kernel --run-queue --no-names --paths --trace-ids --host --children --follow --unwind --source -v --verbose -h --help" -- "$cur"))
		;;
	top)
		COMPREPLY=($(compgen -W "$target $output $filter --budget --runtime --all -h --help" -- "$cur"))
		;;
	trace)
		COMPREPLY=($(compgen -W "$target $output -d --duration --max-size --flight --when --keep --stack-depth --max-pause --root --alloc --no-names --cpu --wire -v --verbose -h --help" -- "$cur"))
		;;
	report)
		COMPREPLY=($(compgen -f -W "$output --by --only --root --per --route --slower --against-fast --span --wakers --critical-path --alloc -n --rows --diff --exe --source -h --help" -- "$cur"))
		;;
	offcpu)
		COMPREPLY=($(compgen -W "$target $output -d --duration --by --only --root --per --route --slower --against-fast --span --wakers --critical-path --alloc -n --rows --source --no-names --cpu --sampled -r --rate --budget --max-size --max-pause -v --verbose -h --help" -- "$cur"))
		;;
	serve)
		COMPREPLY=($(compgen -W "$target --host --children --listen --name --token-file --tls-cert --tls-key --client-ca --no-trace --budget -h --help" -- "$cur"))
		;;
	symbolize)
		COMPREPLY=($(compgen -f -W "$output --exe --debug-dir -h --help" -- "$cur"))
		;;
	unwind-info)
		COMPREPLY=($(compgen -f -W '-o --output --copy -h --help' -- "$cur"))
		;;
	doctor)
		COMPREPLY=($(compgen -W '-p --pid --container -f --format -h --help' -- "$cur"))
		;;
	ps)
		COMPREPLY=($(compgen -W '-f --format -h --help' -- "$cur"))
		;;
	esac
}
complete -F _gospect gospect
