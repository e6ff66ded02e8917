module ledger

go 1.17
