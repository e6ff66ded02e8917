module waiting

go 1.17
