module switches

go 1.17
