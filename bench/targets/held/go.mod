module held

go 1.21
