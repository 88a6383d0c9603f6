package main

import (
	"fmt"
	"log"
	"os"
)

// cat prints files, and adds a line to each: the next one that reads it must not see that.
func cat(names []string) {
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(string(text))
		if err := os.WriteFile(name, append(text, "changed\n"...), 0o600); err != nil {
			log.Fatal(err)
		}
	}
}
