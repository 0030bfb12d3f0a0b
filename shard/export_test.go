package shard

// SetPageSize sets how many shards are on each page, and returns the one before.
func SetPageSize(n int) (before int) {
	before, pageSize = pageSize, n
	return before
}
