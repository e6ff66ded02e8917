module split

go 1.17
