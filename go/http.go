package gospect

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func init() {
	http.HandleFunc("/debug/gospect/", index)
	http.Handle("/debug/gospect/wall", Handler())
	http.HandleFunc("/debug/gospect/trace", serveTrace)
	http.HandleFunc("/debug/gospect/requests", serveVerb("offcpu", "--by", "request"))
	http.HandleFunc("/debug/gospect/goroutines", serveVerb("dump"))
	http.HandleFunc("/debug/gospect/leaks", serveVerb("leaks"))
}

// defaultSeconds is for how long a page records when the request does not say.
const defaultSeconds = 30

var fileNames = map[Format]string{
	FormatPprof: "wall.pb.gz", FormatFolded: "wall.folded", FormatHTML: "wall.html",
	FormatSpeedscope: "wall.speedscope.json", FormatFirefox: "wall.firefox.json",
}

// Handler records a wall-clock profile for the "seconds" of the query (30) and answers with it in the "format" of the
// query, FormatPprof by default. If gospect could not record, the answer is the runtime's goroutine profile, and the
// header Gospect-Fallback has the reason.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := Format(r.URL.Query().Get("format"))
		if format == "" {
			format = FormatPprof
		}
		name, known := fileNames[format]
		if !known {
			http.Error(w, fmt.Sprintf("unknown format: %q", format), http.StatusBadRequest)
			return
		}
		d, ok := duration(w, r)
		if !ok {
			return
		}
		var profile bytes.Buffer
		stop := start(&profile, format)
		sleep(r, d)
		reason, err := stop()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if reason != nil {
			Warn(reason)
			w.Header().Set("Gospect-Fallback", strings.ReplaceAll(reason.Error(), "\n", " "))
		}
		send(w, name, profile.Bytes())
	})
}

func serveTrace(w http.ResponseWriter, r *http.Request) {
	d, ok := duration(w, r)
	if !ok {
		return
	}
	var trace bytes.Buffer
	stop := Trace(&trace)
	sleep(r, d)
	if err := stop(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, "out.trace", trace.Bytes())
}

// serveVerb answers with the text of a verb, or its JSON with ?format=json. A verb that records does so for ?seconds=.
func serveVerb(verb string, options ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		options := append([]string{"-o", "-"}, options...)
		if verb == "offcpu" {
			d, ok := duration(w, r)
			if !ok {
				return
			}
			options = append(options, "-d", d.String())
		}
		kind := "text/plain; charset=utf-8"
		if r.URL.Query().Get("format") == "json" {
			options = append(options, "-f", "json")
			kind = "application/json"
		}
		c, err := begin(verb, options...)
		if err == nil {
			err = c.copyTo(w, kind)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// copyTo answers with what gospect writes, once it ended.
func (c *command) copyTo(w http.ResponseWriter, kind string) error {
	out, err := c.wait()
	if err != nil {
		return err
	}
	defer out.Close()
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, &http.Request{Method: http.MethodGet}, "", time.Time{}, out)
	return nil
}

// duration is the time to record for, or the answer is an error.
func duration(w http.ResponseWriter, r *http.Request) (time.Duration, bool) {
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return defaultSeconds * time.Second, true
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds <= 0 {
		http.Error(w, fmt.Sprintf("bad seconds: %q", text), http.StatusBadRequest)
		return 0, false
	}
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if ok && server.WriteTimeout != 0 && time.Duration(seconds)*time.Second >= server.WriteTimeout {
		http.Error(w, fmt.Sprintf("%d seconds exceed the server's WriteTimeout of %v", seconds, server.WriteTimeout),
			http.StatusBadRequest)
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

// sleep ends early when the client is gone.
func sleep(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func send(w http.ResponseWriter, name string, content []byte) {
	kind := "application/octet-stream"
	if strings.HasSuffix(name, ".html") {
		kind = "text/html; charset=utf-8"
	} else {
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(content)
}

func index(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/debug/gospect/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, `<!DOCTYPE html>
<html lang="en">
<title>gospect</title>
<h1>gospect</h1>
<ul>
<li><a href="wall?format=html&amp;seconds=10">wall?format=html</a>: where every goroutine spends its time
<li><a href="wall?seconds=10">wall</a>: the same for go tool pprof; also format=folded, speedscope, firefox
<li><a href="trace?seconds=3">trace</a>: an execution trace for go tool trace
<li><a href="requests?seconds=3">requests</a>: the slowest requests and what they waited for; also format=json
<li><a href="goroutines">goroutines</a>: every goroutine now; also format=json
<li><a href="leaks">leaks</a>: goroutines that nothing can wake any more; also format=json
</ul>
`)
}
