module requests

go 1.17
