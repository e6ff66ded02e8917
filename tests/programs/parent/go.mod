module parent

go 1.17
