// Package load is the shop's visitors: each asks, waits for the answer, thinks, asks again.
package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"time"
)

const products = 3000

// Run sends `clients` visitors until ctx ends, then says what they saw.
func Run(ctx context.Context, target string, clients int, think time.Duration, out io.Writer) {
	web := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: clients},
	}
	seen := newStatistics()
	done := make(chan struct{})
	for i := 0; i < clients; i++ {
		v := &visitor{web, "http://" + target, rand.New(rand.NewSource(int64(i))), think, seen}
		go func() {
			v.shop(ctx)
			done <- struct{}{}
		}()
	}
	fmt.Println("ready") // for who started us
	for i := 0; i < clients; i++ {
		<-done
	}
	seen.print(out)
}

type visitor struct {
	web    *http.Client
	base   string
	random *rand.Rand
	think  time.Duration
	seen   *statistics
}

func (v *visitor) shop(ctx context.Context) {
	for {
		pause := time.Duration(v.random.ExpFloat64() * float64(v.think))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		route, method, path, body := v.next()
		start := time.Now()
		if err := v.ask(ctx, method, path, body); err != nil {
			if ctx.Err() != nil {
				return
			}
			v.seen.failed(route)
			continue
		}
		v.seen.answered(route, time.Since(start))
	}
}

// next chooses the visitor's next request. Most visitors want the same few products.
func (v *visitor) next() (route, method, path, body string) {
	product := int(v.random.ExpFloat64()*products/30) % products
	switch dice := v.random.Intn(100); {
	case dice < 45:
		return "product", "GET", fmt.Sprintf("/product?id=%d", product), ""
	case dice < 60:
		return "products", "GET", fmt.Sprintf("/products?from=%d", 20*v.random.Intn(30)), ""
	case dice < 75:
		return "search", "GET", "/search?q=" + []string{"ketle", "lantren", "shovl", "clok"}[v.random.Intn(4)], ""
	default:
		return "checkout", "POST", "/checkout",
			fmt.Sprintf(`{"product": %d, "quantity": %d}`, product, 1+v.random.Intn(6))
	}
}

func (v *visitor) ask(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, v.base+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	response, err := v.web.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= 500 {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return nil
}
