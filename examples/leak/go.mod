module leak

go 1.18
