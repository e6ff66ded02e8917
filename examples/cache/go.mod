module cache

go 1.18
