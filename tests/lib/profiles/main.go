// Prints the seccomp profile that Docker or containerd gives to a container with these capabilities, as OCI's JSON.
//
//	profiles docker|containerd CAP_...
package main

import (
	"encoding/json"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	docker "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func profile(engine string, spec *specs.Spec) (*specs.LinuxSeccomp, error) {
	if engine == "containerd" {
		return seccomp.DefaultProfile(spec), nil
	}
	return docker.GetDefaultProfile(spec)
}

func main() {
	caps := &specs.LinuxCapabilities{Bounding: os.Args[2:]}
	found, err := profile(os.Args[1], &specs.Spec{Process: &specs.Process{Capabilities: caps}, Linux: &specs.Linux{}})
	if err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(found)
}
