module crowd

go 1.17
