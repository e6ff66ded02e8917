module nested

go 1.17
