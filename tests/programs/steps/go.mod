module steps

go 1.17
