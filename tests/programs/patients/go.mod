module patients

go 1.17
