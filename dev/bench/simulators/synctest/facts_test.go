// What can and cannot be done with testing/synctest.
package payments

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeOfGoIsVirtualAndThatOfTheKernelIsReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after syscall.Timeval
		syscall.Gettimeofday(&before)
		start := time.Now()
		time.Sleep(time.Hour)
		syscall.Gettimeofday(&after)
		if time.Since(start) != time.Hour || after.Sec-before.Sec > 60 {
			t.Fatal(time.Since(start), before, after)
		}
	})
}

// Runs a test in a process, and returns what it prints.
func outputOf(t *testing.T, name string) string {
	command := exec.Command(os.Args[0], "-test.run", "^"+name+"$", "-test.timeout", "2s")
	command.Env = append(os.Environ(), "FAILS=1")
	output, err := command.CombinedOutput()
	if err == nil {
		t.Fatalf("%s passes:\n%s", name, output)
	}
	return string(output)
}

func TestFails(t *testing.T) {
	if os.Getenv("FAILS") == "" {
		for name, expected := range map[string]string{
			"TestFails/Channel": "deadlock: all goroutines in bubble are blocked",
			"TestFails/Mutex":   "panic: test timed out",
			"TestFails/Socket":  "panic: test timed out",
		} {
			if output := outputOf(t, name); !strings.Contains(output, expected) {
				t.Errorf("%s:\n%s", name, output)
			}
		}
		return
	}
	t.Run("Channel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { <-make(chan int) })
	})
	// Time stands still while a goroutine waits for a mutex.
	t.Run("Mutex", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var mutex sync.Mutex
			mutex.Lock()
			go func() { time.Sleep(time.Second); mutex.Unlock() }()
			mutex.Lock()
		})
	})
	// And while one waits for the network.
	t.Run("Socket", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { time.Sleep(time.Second); listener.Close() }()
			listener.Accept()
		})
	})
}

func TestNothingDecidesTheOrderOfMaps(t *testing.T) {
	orders := map[string]bool{}
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var order strings.Builder
			for letter := range map[string]bool{"a": true, "b": true, "c": true, "d": true} {
				order.WriteString(letter)
			}
			orders[order.String()] = true
		})
	}
	if len(orders) < 2 {
		t.Fatal(orders)
	}
}
