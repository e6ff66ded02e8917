module throng

go 1.17
