module fresh

go 1.17
