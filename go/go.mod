module gospect.example/gospect

go 1.17
