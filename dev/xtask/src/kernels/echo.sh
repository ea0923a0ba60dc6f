# Runs an echo server on each driver in turn. Tells the answers, and the nanoseconds of CPU that it has taken for them.

mkfifo /tmp/input
# The server runs until this ends.
exec 3<>/tmp/input

taken() {
    cat "/proc/$server"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

for round in $(seq "$ROUNDS"); do
    for driver in uring epoll; do
        rm -f /tmp/address
        "$SERVER" --driver "$driver" echo 0 1 0 <&3 >/tmp/address &
        server=$!
        until [ -s /tmp/address ]; do sleep 0.1; done
        before=$(taken)
        answers=$("$LOAD" load tcp "$(cat /tmp/address)" --driver epoll -c 100 -d 1s --json | sed -n 's/.*"answered": \([0-9]*\),/\1/p')
        mark echo "$driver" "$answers" "$(($(taken) - before))"
        kill "$server"
        wait "$server"
    done
done
