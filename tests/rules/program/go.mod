module program

go 1.17
