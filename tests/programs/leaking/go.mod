module leaking

go 1.17
