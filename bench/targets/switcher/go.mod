module switcher

go 1.21
