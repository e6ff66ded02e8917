"""Every Go version, built in every way."""
