module handlers

go 1.17
