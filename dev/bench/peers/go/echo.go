package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"
)

// Longer than a message of 16 bytes, as in the others.
const bufferBytes = 64

// As in dev/bench/peers/compute.rs, which tells why.
const (
	probeSteps = 100_000
	probes     = 500
)

func serve(port, workers, computeMicroseconds int) {
	runtime.GOMAXPROCS(workers)
	steps := calibrated(computeMicroseconds)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	go accept(listener, steps)
	io.Copy(io.Discard, os.Stdin)
}

func accept(listener net.Listener, steps int) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go echo(connection.(*net.TCPConn), steps)
	}
}

func echo(connection *net.TCPConn, steps int) {
	defer connection.Close()
	connection.SetNoDelay(true)
	message := make([]byte, bufferBytes)
	for {
		count, err := connection.Read(message)
		if err != nil {
			return
		}
		runSteps(steps)
		if _, err := connection.Write(message[:count]); err != nil {
			return
		}
	}
}

// calibrated tells how many steps this CPU, undisturbed, does in so many microseconds; nothing takes no time to find.
func calibrated(microseconds int) int {
	if microseconds == 0 {
		return 0
	}
	fastest := time.Hour
	for range probes {
		begin := time.Now()
		runSteps(probeSteps)
		fastest = min(fastest, time.Since(begin))
	}
	return int(float64(microseconds) * probeSteps / (fastest.Seconds() * 1e6))
}

// The compiler knows nothing of a function it does not inline, so it leaves the work in.
//
//go:noinline
func runSteps(steps int) uint64 {
	state := uint64(0x9e3779b97f4a7c15)
	for range steps {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
	}
	return state
}
