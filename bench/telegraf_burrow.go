// Gathers once by Telegraf's own input `burrow` from the servers that are given, and prints how many points of each kind
// it made, and its errors. It ends with 1 if there are any. `python -m bench.telegraf` builds and runs it.
package main

import (
	"fmt"
	"os"

	"github.com/influxdata/telegraf/plugins/inputs/burrow"
	"github.com/influxdata/telegraf/testutil"
)

func main() {
	var found testutil.Accumulator
	if err := (&burrow.Burrow{Servers: os.Args[1:]}).Gather(&found); err != nil {
		found.AddError(err)
	}
	points := map[string]int{"burrow_group": 0, "burrow_partition": 0, "burrow_topic": 0}
	for _, metric := range found.Metrics {
		points[metric.Measurement]++
	}
	for _, name := range []string{"burrow_group", "burrow_partition", "burrow_topic"} {
		fmt.Println(name, points[name])
	}
	for _, err := range found.Errors {
		fmt.Println("error", err)
	}
	if len(found.Errors) > 0 {
		os.Exit(1)
	}
}
