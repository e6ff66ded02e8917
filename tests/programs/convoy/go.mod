module convoy

go 1.17
