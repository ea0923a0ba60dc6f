#!/bin/busybox sh
# The first process of the guest: makes the runs, and tells on the second serial line, between marks, what they print.
# On the first are the kernel's own lines, and the errors.

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

mark() {
    printf '\n@@ %s\n' "$*"
}

mark kernel "$(uname -r) $(uname -v)"
. /runs
mark done
poweroff -f
