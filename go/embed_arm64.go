package gospect

import "embed"

// binaries has gospect.gz and gospect.sha256 in released modules; scripts/go-module puts them there.
//
//go:embed bin/arm64/*
var binaries embed.FS
