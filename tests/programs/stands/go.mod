module stands

go 1.17
