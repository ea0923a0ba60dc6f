package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Maximum number of files in flight, so that neither memory nor descriptors run out: as many as uthread has on two workers.
const filesAtOnce = 128

// search prints the paths of all files beneath these paths that contain the pattern or, with counts, the number of lines that do.
// Each file has its own goroutine.
func search(pattern string, paths []string, counts bool) {
	var lock sync.Mutex
	var done sync.WaitGroup
	out := bufio.NewWriter(os.Stdout)
	slots := make(chan struct{}, filesAtOnce)
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		slots <- struct{}{}
		done.Add(1)
		go func() {
			defer done.Done()
			text, err := os.ReadFile(path)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			} else if lines := matches(text, []byte(pattern), counts); lines > 0 {
				lock.Lock()
				if counts {
					fmt.Fprintf(out, "%s:%d\n", path, lines)
				} else {
					fmt.Fprintln(out, path)
				}
				lock.Unlock()
			}
			<-slots
		}()
		return nil
	}
	for _, path := range paths {
		if err := filepath.WalkDir(path, walk); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	done.Wait()
	out.Flush()
}

// matches returns the number of lines with the pattern, or 1 for any number.
func matches(text, pattern []byte, counts bool) int {
	lines := 0
	for {
		found := bytes.Index(text, pattern)
		if found < 0 {
			return lines
		}
		lines++
		if !counts {
			return lines
		}
		end := bytes.IndexByte(text[found:], '\n')
		if end < 0 {
			return lines
		}
		text = text[found+end+1:]
	}
}
