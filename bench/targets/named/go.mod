module named

go 1.23
