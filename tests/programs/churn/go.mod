module churn

go 1.17
