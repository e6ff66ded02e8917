"""What end-to-end tests share: building and running Go programs, reading what gospect writes."""
