package main

import (
	"os"
	"os/exec"
	"runtime"

	"github.com/natsleader/natsleader/examples/internal/child"
)

// openBrowser opens an address in the browser of the user, if there is one.
func openBrowser(address string) {
	var cmd *exec.Cmd
	switch {
	case runtime.GOOS == "darwin":
		cmd = exec.Command("open", address)
	case runtime.GOOS == "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	case os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "":
		cmd = exec.Command("xdg-open", address)
	default:
		return
	}
	child.Separate(cmd) // Ctrl-C is not for the browser
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // it may fail: the address is printed, too
	}
}
