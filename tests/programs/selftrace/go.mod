module selftrace

go 1.17
