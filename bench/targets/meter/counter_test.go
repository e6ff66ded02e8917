package main

import "testing"

func TestBucketsHoldWhatTheySay(t *testing.T) {
	for ns := uint64(0); ns < 1<<40; ns += 1 + ns/7 {
		i := bucketOf(ns)
		if i >= bucketCount || ns > bucketUpper(i) || i > 0 && ns <= bucketUpper(i-1) {
			t.Fatalf("%d ns went to bucket %d, which ends at %d", ns, i, bucketUpper(i))
		}
	}
}
