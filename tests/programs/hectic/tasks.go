package main

import (
	"context"
	"runtime/trace"
	"time"
)

func init() { add("tasks", tasks) }

// Annotations for an execution trace, although the program makes none.
func tasks(w *work) {
	for {
		ctx, task := trace.NewTask(context.Background(), "errand")
		trace.WithRegion(ctx, "walk", func() { time.Sleep(time.Millisecond) })
		trace.Log(ctx, "mood", "good")
		task.End()
		w.done()
	}
}
