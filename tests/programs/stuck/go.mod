module stuck

go 1.17
