#!/bin/sh
# Ports a program from `std` to fibers: `port.sh FROM TO`. This is all that it takes.
set -eu
cp -r "$1" "$2"
uthread port --main "$2"
rustfmt --edition 2024 "$2/main.rs" # the order of the imports
