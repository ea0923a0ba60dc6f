// Memory of goroutines. Another process reads it at each stage.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
)

// Each goroutine uses kib KiB of its stack, and waits within the calls that use it if isHeld, else after they have returned.
func memory(count, kib int, isHeld bool) {
	runtime.GOMAXPROCS(1)
	input := bufio.NewReader(os.Stdin)
	stage := func(name string) {
		fmt.Println(name)
		// The end of the input ends the wait as well.
		input.ReadString('\n')
	}
	stage("before")
	var begun, done sync.WaitGroup
	gate := make(chan struct{})
	begun.Add(count)
	done.Add(count)
	wait := func() {
		begun.Done()
		<-gate
	}
	for range count {
		go func() {
			if isHeld {
				descend(kib, wait)
			} else {
				descend(kib, func() {})
				wait()
			}
			done.Done()
		}()
	}
	begun.Wait()
	stage("peak")
	close(gate)
	done.Wait()
	stage("ended")
}

// descend calls last below kib frames of a KiB each, all of which are written.
//
//go:noinline
func descend(kib int, last func()) {
	if kib == 0 {
		last()
		return
	}
	var block [1024]byte
	fill(&block)
	descend(kib-1, last)
	fill(&block)
}

//go:noinline
func fill(block *[1024]byte) {
	for index := range block {
		block[index]++
	}
}
