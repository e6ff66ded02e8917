module machine

go 1.17
