module owners

go 1.17
