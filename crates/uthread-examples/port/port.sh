#!/bin/sh
# Ports a program from `std` to fibers: `port.sh FROM TO`. This is all that it takes.
set -eu
cp -r "$1" "$2"
sed -E -i 's/\bstd::(net|fs|io|sync|thread|time|process)\b/uthread::\1/g' "$2"/*.rs
sed -i 's/^fn main/#[uthread::main]\n&/' "$2/main.rs"
rustfmt --edition 2024 "$2/main.rs" # the order of the imports
