module gaps

go 1.21
