#!/bin/busybox sh
# The first process of the guest: makes the runs of the plan, and tells on the second serial line, between marks, what
# they print. On the first are the kernel's own lines, and the errors.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir /dev/pts
mount -t devpts -o ptmxmode=0666 pts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
exec </dev/null >/dev/ttyS1 2>/dev/ttyS0
stty -F /dev/ttyS1 -opost

# What a login on Debian has: the first process of a kernel may open fewer files.
ulimit -Hn 524288
ulimit -Sn 1024
ip link set lo up
set -a
. /environment
set +a
cd /package

mark() {
    printf '\n@@ %s\n' "$*"
}

bounded() {
    timeout -s KILL "$LIMIT" "$@" </dev/null
}

mark kernel "$(uname -r) $(uname -v)"
mark doctor
bounded "$DOCTOR" doctor --json
while read -r name command; do
    mark list "$name"
    bounded $command --list --format terse
    mark run "$name"
    # One after the other, as each counts on a part of what little time there is.
    bounded $command --format pretty --color never --test-threads 1
    mark end "$?"
done </plan
mark done
poweroff -f
