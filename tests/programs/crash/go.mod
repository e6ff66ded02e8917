module crash

go 1.17
