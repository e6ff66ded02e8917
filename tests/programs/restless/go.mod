module restless

go 1.17
