// The peer in Go: goroutines and channels. dev/bench/peers/README.md tells what each command measures.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	command, arguments := os.Args[1], os.Args[2:]
	number := func(index int) int {
		value, err := strconv.Atoi(arguments[index])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return value
	}
	switch command {
	case "spawn":
		spawn(number(0))
	case "yield":
		yield(number(0), number(1))
	case "create":
		create(number(0))
	case "sleepers":
		sleepers(number(0))
	case "memory":
		memory(number(0), number(1), false)
	case "memory-held":
		memory(number(0), number(1), true)
	case "pingpong":
		pingpong(number(0), number(1))
	case "search":
		search(arguments[1], arguments[2:], arguments[0] == "counts")
	case "service":
		service(number(0), number(1), arguments[2:])
	case "echo":
		serve(number(0), number(1), number(2))
	default:
		fmt.Fprintln(os.Stderr, "unknown command", command)
		os.Exit(2)
	}
}

func report(elapsed time.Duration, operations int) {
	fmt.Printf("%.1f\n", float64(elapsed.Nanoseconds())/float64(operations))
}

func spawn(count int) {
	runtime.GOMAXPROCS(1)
	begin := time.Now()
	for range count {
		done := make(chan struct{})
		go func() { close(done) }()
		<-done
	}
	report(time.Since(begin), count)
}

func yield(fibers, count int) {
	runtime.GOMAXPROCS(1)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	each := count / fibers
	for range fibers {
		ready.Add(1)
		done.Add(1)
		go func() {
			ready.Done()
			<-start
			for range each {
				runtime.Gosched()
			}
			done.Done()
		}()
	}
	ready.Wait()
	begin := time.Now()
	close(start)
	done.Wait()
	report(time.Since(begin), each*fibers)
}

func residentBytes() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		panic(err)
	}
	return pages * os.Getpagesize()
}

func create(count int) {
	runtime.GOMAXPROCS(1)
	before := residentBytes()
	var begun, done sync.WaitGroup
	gate := make(chan struct{})
	begun.Add(count)
	done.Add(count)
	begin := time.Now()
	for range count {
		go func() {
			begun.Done()
			<-gate
			done.Done()
		}()
	}
	begun.Wait()
	elapsed := time.Since(begin)
	grown := residentBytes() - before
	close(gate)
	done.Wait()
	fmt.Printf("%.1f %.1f\n", float64(elapsed.Nanoseconds())/float64(count), float64(grown)/float64(count))
}

func sleepers(count int) {
	before := residentBytes()
	var ready sync.WaitGroup
	for range count {
		ready.Add(1)
		go func() {
			ready.Done()
			time.Sleep(time.Hour)
		}()
	}
	ready.Wait()
	fmt.Printf("%.1f\n", float64(residentBytes()-before)/float64(count))
}

func pingpong(workers, count int) {
	runtime.GOMAXPROCS(workers)
	pings, pongs := make(chan int, 1), make(chan int, 1)
	go func() {
		for message := range pings {
			pongs <- message
		}
	}()
	begin := time.Now()
	for message := range count {
		pings <- message
		if <-pongs != message {
			panic("another message came back")
		}
	}
	report(time.Since(begin), count)
	close(pings)
}
