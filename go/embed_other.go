//go:build !amd64 && !arm64
// +build !amd64,!arm64

package gospect

import "embed"

var binaries embed.FS
