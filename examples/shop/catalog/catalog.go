// Package catalog holds the products in memory and finds them by misspelt names.
package catalog

import (
	"fmt"
	"sort"
	"strings"
)

var Categories = []string{"kitchen", "garden", "books", "toys", "tools", "lights", "music", "games"}

var (
	adjectives = []string{"small", "large", "folding", "copper", "wooden", "quiet", "bright", "blue", "sturdy", "cheap"}
	nouns      = []string{"kettle", "lantern", "shovel", "puzzle", "hammer", "atlas", "stool", "basket", "clock", "whisk"}
)

type Product struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Category string `json:"category"`
}

type Catalog struct {
	products []Product
}

func Generate(n int) *Catalog {
	c := &Catalog{products: make([]Product, n)}
	for i := range c.products {
		name := fmt.Sprintf("%s %s no %d", adjectives[i%10], nouns[i/10%10], i)
		c.products[i] = Product{ID: i, Name: name, Category: Categories[i%len(Categories)]}
	}
	return c
}

func (c *Catalog) Len() int { return len(c.products) }

func (c *Catalog) Get(id int) (Product, bool) {
	if id < 0 || id >= len(c.products) {
		return Product{}, false
	}
	return c.products[id], true
}

func (c *Catalog) Page(category string, from, n int) []Product {
	page := make([]Product, 0, n)
	for _, p := range c.products {
		if category != "" && p.Category != category {
			continue
		}
		if from > 0 {
			from--
			continue
		}
		if page = append(page, p); len(page) == n {
			break
		}
	}
	return page
}

// Search returns the n products whose names are nearest to the query. It compares every product,
// because there is no index.
func (c *Catalog) Search(query string, n int) []Product {
	query = strings.ToLower(query)
	type hit struct {
		index, distance int
	}
	hits := make([]hit, len(c.products))
	for i, p := range c.products {
		hits[i] = hit{i, nameDistance(query, p.Name)}
	}
	sort.Slice(hits, func(i, j int) bool { return hits[i].distance < hits[j].distance })
	found := make([]Product, 0, n)
	for _, h := range hits[:n] {
		found = append(found, c.products[h.index])
	}
	return found
}

func nameDistance(query, name string) int {
	best := len(query)
	for _, word := range strings.Fields(name) {
		if d := editDistance(query, word); d < best {
			best = d
		}
	}
	return best
}

// editDistance is Levenshtein's, one row at a time.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = least(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

func least(a, b, c int) int {
	if b < a {
		a = b
	}
	if c < a {
		a = c
	}
	return a
}
