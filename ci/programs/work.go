// Goroutines that take memory from C's malloc by cgo, in threads of Go's making, and give it back in others.
package main

/*
#include <stdlib.h>
#include <string.h>
static char *fill(size_t n, int c) { char *p = malloc(n); memset(p, c, n); return p; }
static int sum(char *p, size_t n) { int s = 0; for (size_t i = 0; i < n; i++) s += p[i]; return s; }
*/
import "C"

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"unsafe"
)

func main() {
	type block struct {
		p unsafe.Pointer
		n C.size_t
	}
	blocks := make(chan block, 100)
	var makers, takers sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for g := 0; g < 8; g++ {
		makers.Add(1)
		go func(g int) {
			defer makers.Done()
			if g%2 == 0 {
				runtime.LockOSThread() // its thread ends with it
			}
			for i := 0; i < 2000; i++ {
				n := C.size_t(16 + i*7%5000)
				blocks <- block{unsafe.Pointer(C.fill(n, C.int(i%100))), n}
			}
			s := C.CString(fmt.Sprint(g))
			C.free(unsafe.Pointer(s))
		}(g)
	}
	for g := 0; g < 4; g++ {
		takers.Add(1)
		go func() {
			defer takers.Done()
			mine := 0
			for b := range blocks {
				mine += int(C.sum((*C.char)(b.p), b.n))
				C.free(b.p)
			}
			lock.Lock()
			total += mine
			lock.Unlock()
		}()
	}
	out, err := exec.Command("echo", "from a child").Output()
	makers.Wait()
	close(blocks)
	takers.Wait()
	runtime.GC()
	fmt.Println(total, string(out), err)
}
