module cgo

go 1.17
