module stuck

go 1.18
