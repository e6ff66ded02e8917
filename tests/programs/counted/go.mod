module counted

go 1.17
