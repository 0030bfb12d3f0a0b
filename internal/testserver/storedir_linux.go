package testserver

import "syscall"

const (
	memory = "/dev/shm" // a tmpfs: shm_overview(7)
	room   = 1 << 30    // bytes; containers often have 64 MiB
)

func roomInMemory() bool {
	var fs syscall.Statfs_t
	err := syscall.Statfs(memory, &fs)
	return err == nil && fs.Bavail > room/uint64(fs.Bsize)
}
