module states

go 1.17
