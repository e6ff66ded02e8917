# fish completion for gospect. The verbs and options are those of the program's own help.

# The ids and the names of the Go processes.
function __gospect_targets
	gospect ps 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { n = split($6, parts, "/"); print $1 "\t" parts[n]; print parts[n] "\t" $1 }'
end

function __gospect_verbs
	gospect --help 2>/dev/null | string replace -rf '^  ([\w-]+) +(\S.*)$' '$1'\t'$2'
end

# Each option and what it does; a line of help has one or two names, two spaces and a text.
function __gospect_options
	set -l words (commandline -opc)
	for line in (gospect $words[2] --help 2>/dev/null | string match -r '^ {2,6}-.*')
		set -l parts (string match -r '^ +(-\S.*?)(?:  +(\S.*))?$' -- $line)
		for option in (string split ', ' -- $parts[2])
			printf '%s\t%s\n' (string replace -r '[\[=].*' '' -- $option) "$parts[3]"
		end
	end
end

function __gospect_verb_is
	set -l words (commandline -opc)
	test (count $words) -gt 1; and contains -- $words[2] $argv
end

function __gospect_after
	contains -- (commandline -opc)[-1] $argv
end

set -l takes_path -o --output --core --exe --diff --debug-dir --source --tls-cert --tls-key --client-ca --token-file --ca-file --spool
set -l takes_word -p --pid --follow -f --format --unwind --state --kind --to

complete -c gospect -f
complete -c gospect -n 'test (count (commandline -opc)) -eq 1' -a '(__gospect_verbs)'
complete -c gospect -n 'test (count (commandline -opc)) -eq 1' -a '--help --version'
complete -c gospect -n "test (count (commandline -opc)) -gt 1; and not __gospect_after $takes_path $takes_word" -a '(__gospect_options)'
complete -c gospect -n "__gospect_after $takes_path" -F
complete -c gospect -n '__gospect_after -p --pid --follow' -a '(__gospect_targets)'
complete -c gospect -n '__gospect_after -f --format' -a 'text json folded folded-state pprof speedscope firefox html perf go perfetto'
complete -c gospect -n '__gospect_after --to' -a 'pyroscope parca otlp'
complete -c gospect -n '__gospect_after --unwind' -a 'pcsp fp dwarf'
complete -c gospect -n '__gospect_after --state' -a 'running runnable syscall waiting'
complete -c gospect -n '__gospect_after --kind' -a 'heap allocs block mutex goroutine goroutineleak threadcreate'
complete -c gospect -n "__gospect_verb_is report symbolize unwind-info; and not __gospect_after $takes_word" -F
complete -c gospect -n "not __gospect_verb_is ps report symbolize unwind-info; and test (count (commandline -opc)) -gt 1; and not __gospect_after $takes_path $takes_word" -a '(__gospect_targets)'
