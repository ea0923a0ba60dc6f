package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

const text = "Hello, World!"

// As in dev/bench/peers/page.rs.
func page() string {
	type row struct {
		id   int
		text string
	}
	rows := make([]row, 0, 20)
	for id := 1; id <= 20; id++ {
		rows = append(rows, row{id, fmt.Sprintf("<row %02d> of \"20\" & more", id*7%20)})
	}
	sort.Slice(rows, func(left, right int) bool { return rows[left].text < rows[right].text })
	var page strings.Builder
	page.WriteString("<!DOCTYPE html><table>")
	for _, row := range rows {
		fmt.Fprintf(&page, "<tr><td>%d<td>%s", row.id, html.EscapeString(row.text))
	}
	page.WriteString("</table>\n")
	return page.String()
}

// Serves, with the folder of a database also its rows.
func service(port, workers int, database []string) {
	runtime.GOMAXPROCS(workers)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	plain := func(body func() string) http.HandlerFunc {
		return func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Type", "text/plain; charset=utf-8")
			io.WriteString(writer, body())
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /text", plain(func() string { return text }))
	mux.HandleFunc("GET /page", plain(page))
	mux.HandleFunc("GET /json", func(writer http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(struct {
			Message string `json:"message"`
		}{text})
		if err != nil {
			panic(err)
		}
		writer.Header().Set("Content-Type", "application/json")
		writer.Write(body)
	})
	if len(database) > 0 {
		// As in dev/bench/peers/database.rs.
		rows, err := pgxpool.New(context.Background(), "host="+database[0]+" user=postgres pool_max_conns=16")
		if err != nil {
			panic(err)
		}
		mux.HandleFunc("GET /row/{id}", func(writer http.ResponseWriter, request *http.Request) {
			id, err := strconv.Atoi(request.PathValue("id"))
			if err != nil {
				panic(err)
			}
			var text string
			err = rows.QueryRow(request.Context(), "SELECT text FROM row WHERE id = $1", id).Scan(&text)
			if err != nil {
				panic(err)
			}
			writer.Header().Set("Content-Type", "text/plain; charset=utf-8")
			io.WriteString(writer, text)
		})
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols}
	go server.Serve(listener)
	io.Copy(io.Discard, os.Stdin)
}
