# Reads what `go tool pprof -traces -unit=ms` prints of the shop and says, for each kind of request,
# where it stands: the innermost function of the shop's own, and what it waits for there. Goroutines
# that a request started inherit its label, so only those are counted that serve a connection.
# Then it says holders of what goroutines wait for: the lock of the stock, and the connections to the database.

function sample_end(    key) {
	if (route != "" && value > 0 && is_request) {
		if (place == "")
			place = "(" state ")"
		key = route SUBSEP place SUBSEP (wait != "" ? wait : state)
		total[route] += value
		here[key] += value
	}
	if (value > 0 && holds_lock && !outside_lock && wait != "sync.Mutex.Lock")
		add("the lock of the stock is held in", place, value)
	if (value > 0 && has_connection && user != "")
		add("connections to the database are used by", user, value)
	value = is_request = holds_lock = outside_lock = has_connection = 0
	user = ""
	in_labels = 1
	route = place = wait = state = ""
}

function add(what, who, value) {
	held[what] += value
	holder[what SUBSEP who] += value
}

function frame(name) {
	if (place == "" && name ~ /^shop\//)
		place = name
	if (user == "" && name ~ /^shop\// && name !~ /^shop\/(db|pricing)\./)
		user = name
	if (name == "shop/db.(*conn).roundTrip")
		has_connection = 1
	if (name == "shop/stock.(*Shelves).Reserve")
		holds_lock = 1
	if (name == "shop/stock.(*Shelves).reserveQuoted")
		outside_lock = 1
	if (name == "net/http.(*conn).serve")
		is_request = 1
}

# The key among the given ones with the largest value.
function largest(values,    key, best) {
	best = ""
	for (key in values)
		if (best == "" || values[key] > values[best])
			best = key
	return best
}

function print_route(name,    key, part, shown, places) {
	if (total[name] < 50 * seconds)
		return
	printf "\n  %-38s %8.2f\n", name, total[name] / 1000 / seconds
	for (key in here) {
		split(key, part, SUBSEP)
		if (part[1] == name && here[key] >= 0.01 * total[name] && here[key] >= 5 * seconds)
			places[key] = here[key]
	}
	for (shown = 0; shown < 5 && (key = largest(places)) != ""; shown++) {
		split(key, part, SUBSEP)
		printf "    %-36s %8.2f %3.0f %%  %s\n", part[2], places[key] / 1000 / seconds,
			100 * places[key] / total[name], part[3]
		delete places[key]
	}
}

function print_holders(what,    key, part, shown, holders) {
	printf "\n  %-38s %8.2f\n", what, held[what] / 1000 / seconds
	for (key in holder) {
		split(key, part, SUBSEP)
		if (part[1] == what && holder[key] >= 0.05 * held[what])
			holders[part[2]] = holder[key]
	}
	for (shown = 0; shown < 3 && (key = largest(holders)) != ""; shown++) {
		printf "    %-36s %8.2f %3.0f %%\n", key, holders[key] / 1000 / seconds,
			100 * holders[key] / held[what]
		delete holders[key]
	}
}

/^Duration:/ {
	seconds = $2 + 0
	if ($2 ~ /^[0-9.]+ms/) seconds /= 1000
	if ($2 ~ /^[0-9.]+min/) seconds *= 60
}

/^-+\+-+$/ {
	sample_end()
	next
}

in_labels && /^ *[^ ]+:  / {
	key = $1
	sub(/^ *[^ ]+:  /, "")
	if (key == "route:") route = $0
	if (key == "wait:") wait = $0
	if (key == "state:") state = $0
	next
}

in_labels && /^ *[0-9.]+(ms)? +/ {
	in_labels = 0
	value = $1 + 0
	frame($2)
	next
}

{ frame($1) }

END {
	if (seconds <= 0) {
		print "where.awk: this is no profile of the shop" > "/dev/stderr"
		exit 1
	}
	print ""
	print "where the requests are (how many, on average, at any one moment):"
	while ((name = largest(total)) != "") {
		print_route(name)
		delete total[name]
	}
	print ""
	print "holders of what goroutines wait for:"
	while ((name = largest(held)) != "") {
		print_holders(name)
		delete held[name]
	}
}
