module held

go 1.17
