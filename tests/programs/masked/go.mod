module masked

go 1.17
