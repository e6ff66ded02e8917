module probed

go 1.21
