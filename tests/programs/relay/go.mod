module relay

go 1.17
