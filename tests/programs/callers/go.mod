module callers

go 1.17
