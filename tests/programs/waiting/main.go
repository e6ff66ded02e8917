// Goroutines that wait for everything there is to wait for, and what is true of them, for `gospect waits`.
//
// A line of JSON says it: which goroutines wait for which object, which have it, and which are
// deadlocked. Rings of goroutines deadlock over locks of several kinds; the others are healthy.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

type object struct {
	Kind       string
	Address    string
	Waiters    []int
	Holders    []int
	NotHolders []int
	Name       string
}

type truth struct {
	Objects   []*object
	Deadlocks []*[]int
	Suspected []*[]int
	Listen    string
	Dialed    string
}

var (
	all  truth
	lock sync.Mutex // of all
	// Objects that gospect names by their symbols.
	globalFirst, globalSecond sync.Mutex
	globalQueue               = make(chan int)
)

func goid() int {
	buf := make([]byte, 64)
	id, _ := strconv.Atoi(strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1])
	return id
}

func add(list *[]int) {
	lock.Lock()
	*list = append(*list, goid())
	lock.Unlock()
}

func newObject(kind string, p interface{}, name string) *object {
	o := &object{Kind: kind, Address: fmt.Sprintf("%p", p), Name: name}
	lock.Lock()
	all.Objects = append(all.Objects, o)
	lock.Unlock()
	return o
}

// What a goroutine says of itself once it holds its first lock; then it waits until all do.
type gate struct {
	ready sync.WaitGroup
	open  chan bool
}

func newGate(n int) *gate {
	g := &gate{open: make(chan bool)}
	g.ready.Add(n)
	return g
}

func (g *gate) pass() {
	g.ready.Done()
	<-g.open
}

func (g *gate) release() {
	g.ready.Wait()
	close(g.open)
}

type account struct {
	id      int
	mu      sync.Mutex
	balance int
}

//go:noinline
func transfer(from, to *account, g *gate, ids *[]int) {
	add(ids)
	from.mu.Lock()
	g.pass()
	to.mu.Lock()
	from.balance--
	to.balance++
	to.mu.Unlock()
	from.mu.Unlock()
}

//go:noinline
func transferDeferred(from, to *account, g *gate, ids *[]int) {
	add(ids)
	from.mu.Lock()
	defer from.mu.Unlock()
	g.pass()
	to.mu.Lock()
	defer to.mu.Unlock()
	from.balance--
	to.balance++
}

func ring(n int, f func(from, to *account, g *gate, ids *[]int)) {
	accounts := make([]*account, n)
	ids := make([]int, 0, n)
	g := newGate(n)
	for i := range accounts {
		accounts[i] = &account{id: i}
	}
	for i := range accounts {
		go f(accounts[i], accounts[(i+1)%n], g, &ids)
	}
	g.release()
	all.Deadlocks = append(all.Deadlocks, &ids)
}

// A ring over an array of locks, by index.
func ringOfArray(n int) {
	var locks [32]sync.Mutex
	ids := make([]int, 0, n)
	g := newGate(n)
	for i := 0; i < n; i++ {
		go func(i int) {
			add(&ids)
			locks[i].Lock()
			g.pass()
			locks[(i+1)%n].Lock()
			locks[(i+1)%n].Unlock()
			locks[i].Unlock()
		}(i)
	}
	g.release()
	all.Deadlocks = append(all.Deadlocks, &ids)
}

func globals() {
	ids := make([]int, 0, 2)
	g := newGate(2)
	first := newObject("mutex", &globalFirst, "main.globalFirst")
	second := newObject("mutex", &globalSecond, "main.globalSecond")
	go func() {
		add(&ids)
		add(&first.Holders)
		add(&second.Waiters)
		globalFirst.Lock()
		g.pass()
		globalSecond.Lock()
	}()
	go func() {
		add(&ids)
		add(&second.Holders)
		add(&first.Waiters)
		globalSecond.Lock()
		g.pass()
		globalFirst.Lock()
	}()
	g.release()
	all.Deadlocks = append(all.Deadlocks, &ids)
}

// A reader that reads again behind a writer that waits for it.
func readers() {
	ids := make([]int, 0, 2)
	g := newGate(1)
	var rw sync.RWMutex
	o := newObject("rwmutex", &rw, "")
	go func() {
		add(&ids)
		add(&o.Holders)
		add(&o.Waiters)
		rw.RLock()
		g.pass()
		time.Sleep(100 * time.Millisecond) // until the writer waits
		rw.RLock()
		rw.RUnlock()
		rw.RUnlock()
	}()
	g.ready.Wait()
	go func() {
		add(&ids)
		add(&o.Waiters)
		add(&o.Holders)
		g.ready.Add(1)
		rw.Lock()
		rw.Unlock()
	}()
	close(g.open)
	all.Deadlocks = append(all.Deadlocks, &ids)
}

// One waits for its children with a lock that a child needs.
func family() {
	ids := make([]int, 0, 2)
	var mu sync.Mutex
	var wg sync.WaitGroup
	o := newObject("waitgroup", &wg, "")
	started := make(chan bool)
	go func() {
		add(&ids)
		add(&o.Waiters)
		mu.Lock()
		wg.Add(1)
		go func() {
			defer wg.Done()
			add(&ids)
			add(&o.Holders)
			close(started)
			mu.Lock()
			mu.Unlock()
		}()
		wg.Wait()
		mu.Unlock()
	}()
	<-started
	all.Deadlocks = append(all.Deadlocks, &ids)
}

func alone() {
	ids := make([]int, 0, 1)
	var mu sync.Mutex
	started := make(chan bool)
	go func() {
		add(&ids)
		mu.Lock()
		close(started)
		mu.Lock()
	}()
	<-started
	all.Deadlocks = append(all.Deadlocks, &ids)
}

//go:noinline
func first(in <-chan int, out chan<- int) {
	<-in
	out <- 1
}

func channels() {
	ids := make([]int, 0, 2)
	a, b := make(chan int), make(chan int)
	started := make(chan bool, 2)
	for i := 0; i < 2; i++ {
		in, out := a, b
		if i == 1 {
			in, out = b, a
		}
		go func() {
			add(&ids)
			started <- true
			first(in, out)
		}()
	}
	<-started
	<-started
	all.Suspected = append(all.Suspected, &ids)
}

// ---- healthy ----

type server struct {
	name  string
	mu    sync.Mutex
	state int
}

//go:noinline
func (s *server) hold(o *object, ready chan bool, end chan bool) {
	add(&o.Holders)
	s.mu.Lock()
	s.state++
	ready <- true
	<-end
	s.mu.Unlock()
}

//go:noinline
func (s *server) want(o *object) {
	add(&o.Waiters)
	s.mu.Lock()
	s.state++
	s.mu.Unlock()
}

//go:noinline
func (s *server) had(o *object, ready chan bool, end chan bool) {
	add(&o.NotHolders)
	s.mu.Lock()
	s.state++
	s.mu.Unlock()
	ready <- true
	<-end
	s.state++
}

//go:noinline
func (s *server) pause(o *object, ready chan bool, end chan bool) {
	add(&o.NotHolders)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state++
	s.mu.Unlock()
	ready <- true
	<-end
	s.mu.Lock()
	s.state++
}

//go:noinline
func (s *server) release() {
	s.state++
	s.mu.Unlock()
}

//go:noinline
func (s *server) hand(o *object, ready chan bool, end chan bool) {
	add(&o.NotHolders)
	s.mu.Lock()
	s.release()
	ready <- true
	<-end
	s.state++
}

// Looks at what it does not have, on one of two ways.
//
//go:noinline
func (s *server) maybe(o *object, ready chan bool, end chan bool) {
	add(&o.NotHolders)
	s.mu.Lock()
	if s.state > 0 {
		s.mu.Unlock()
	} else {
		defer s.mu.Unlock()
	}
	ready <- true
	<-end
}

// Has the lock of a sync.Once, for which another one waits.
func once() {
	ids := make([]int, 0, 2)
	var a, b sync.Once
	g := newGate(2)
	go func() {
		add(&ids)
		a.Do(func() {
			g.pass()
			b.Do(func() {})
		})
	}()
	go func() {
		add(&ids)
		b.Do(func() {
			g.pass()
			a.Do(func() {})
		})
	}()
	g.release()
	all.Deadlocks = append(all.Deadlocks, &ids)
}

type table struct {
	rows int
	rw   sync.RWMutex
}

// Two readers of a table that a writer wants: no deadlock.
//
//go:noinline
func (t *table) read(o *object, ready chan bool, end chan bool) {
	add(&o.Holders)
	t.rw.RLock()
	defer t.rw.RUnlock()
	ready <- true
	<-end
}

func tables() {
	t := &table{}
	o := newObject("rwmutex", &t.rw, "")
	ready, end := make(chan bool), make(chan bool)
	for i := 0; i < 2; i++ {
		go t.read(o, ready, end)
		<-ready
	}
	go func() {
		add(&o.Waiters)
		add(&o.Holders)
		t.rw.Lock()
		t.rw.Unlock()
	}()
}

func mutexes() {
	s := &server{name: "a"}
	o := newObject("mutex", &s.mu, "field mu of main.server in variable s of main.(*server).want")
	ready, end := make(chan bool), make(chan bool)
	go s.had(o, ready, end)
	<-ready
	go s.pause(o, ready, end)
	<-ready
	go s.hand(o, ready, end)
	<-ready
	go s.maybe(o, ready, end)
	<-ready
	go s.hold(o, ready, end)
	<-ready
	for i := 0; i < 3; i++ {
		go s.want(o)
	}
}

func others() {
	full := make(chan int, 2)
	full <- 1
	full <- 2
	o := newObject("channel", full, "")
	go func() { add(&o.Waiters); full <- 3 }()

	queue := newObject("channel", globalQueue, "main.globalQueue")
	go func() { add(&queue.Waiters); <-globalQueue }()

	a, b := make(chan int), make(chan string)
	oa, ob := newObject("channel", a, ""), newObject("channel", b, "")
	go func() {
		add(&oa.Waiters)
		add(&ob.Waiters)
		select {
		case <-a:
		case b <- "x":
		}
	}()

	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	oc := newObject("cond", cond, "")
	go func() {
		add(&oc.Waiters)
		mu.Lock()
		cond.Wait()
		mu.Unlock()
	}()

	none := newObject("select", nil, "")
	go func() { add(&none.Waiters); select {} }()
	missing := newObject("channel", nil, "")
	go func() { add(&missing.Waiters); var c chan int; <-c }()
	sleep := newObject("timer", nil, "")
	go func() { add(&sleep.Waiters); time.Sleep(time.Hour) }()
}

func network() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	all.Listen = l.Addr().String()
	o := newObject("network", nil, "")
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			panic(err)
		}
		add(&o.Waiters)
		lock.Lock()
		all.Dialed = c.LocalAddr().String()
		lock.Unlock()
		c.Read(make([]byte, 1))
	}()
	l.Accept()
	accept := newObject("network", nil, "")
	go func() { add(&accept.Waiters); l.Accept() }()
}

// Pairs that hand a token to each other all the time: never a cycle.
func churn() {
	var a, b sync.Mutex
	for i := 0; i < 2; i++ {
		go func() {
			for {
				a.Lock()
				b.Lock()
				b.Unlock()
				a.Unlock()
				time.Sleep(time.Millisecond)
			}
		}()
	}
	there, back := make(chan int), make(chan int)
	go func() {
		for {
			there <- 1
			<-back
			time.Sleep(time.Millisecond)
		}
	}()
	go func() {
		for {
			<-there
			back <- 1
		}
	}()
}

func main() {
	if len(os.Args) < 2 || os.Args[1] != "healthy" {
		for _, n := range []int{2, 3, 20} {
			ring(n, transfer)
			ring(n, transferDeferred)
			ringOfArray(n)
		}
		globals()
		readers()
		family()
		alone()
		once()
		channels()
	}
	mutexes()
	tables()
	others()
	network()
	churn()
	time.Sleep(300 * time.Millisecond) // until all of them wait
	fmt.Println("ready", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "check" {
			fmt.Println("right")
			continue
		}
		lock.Lock()
		line, _ := json.Marshal(all)
		lock.Unlock()
		fmt.Println(string(line))
	}
}
