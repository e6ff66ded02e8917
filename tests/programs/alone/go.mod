module alone

go 1.17
