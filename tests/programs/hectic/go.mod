module hectic

go 1.17
