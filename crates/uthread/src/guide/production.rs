//! How to run servers in production: under systemd, on Unix sockets, as several processes, and in containers.
//!
//! The examples run `uthread serve`. `uthread tunnel` and programs of your own run in the same way.
//!
//! # Under systemd
//!
//! With a socket unit, systemd listens and passes the socket to the service. A restart refuses no connection: those that arrive in the
//! meantime wait in the kernel's queue. And the service needs no rights for a port below 1024. `site.socket`:
//!
//! ```ini
//! [Socket]
//! ListenStream=80
//!
//! [Install]
//! WantedBy=sockets.target
//! ```
//!
//! `site.service`:
//!
//! ```ini
//! [Unit]
//! Description=Static site
//! Requires=site.socket
//! After=site.socket
//!
//! [Service]
//! Type=notify
//! ExecStart=/usr/local/bin/uthread serve /srv/site
//! DynamicUser=yes
//! SystemCallFilter=@system-service
//! LimitNOFILE=65536
//! TimeoutStopSec=15
//! SuccessExitStatus=3
//! Restart=on-failure
//!
//! [Install]
//! WantedBy=multi-user.target
//! ```
//!
//! - `Type=notify`: the service counts as started when it listens. It sends `READY=1`, and `STOPPING=1` when it begins to drain.
//! - `TimeoutStopSec` is longer than `--grace`, which is 10 s by default for `serve` and 30 s for `tunnel`.
//! - The exit code 3 means that the grace period was over and responses were cut.
//! - `@system-service` permits io_uring.
//!
//! A program takes the socket with [`listeners_from_env`](crate::net::listeners_from_env). It reports that it is ready with a datagram:
//!
//! ```
//! use std::io;
//! use std::os::linux::net::SocketAddrExt;
//! use uthread::net::unix::SocketAddr;
//! use uthread::net::{InheritedSocket, TcpListener, UnixDatagram, listeners_from_env};
//!
//! fn listen() -> io::Result<TcpListener> {
//!     match listeners_from_env()?.pop().map(|inherited| inherited.socket) {
//!         Some(InheritedSocket::Tcp(listener)) => Ok(listener),
//!         Some(_) => Err(io::Error::other("not a TCP socket: set ListenStream=PORT")),
//!         None => TcpListener::bind("127.0.0.1:0"),
//!     }
//! }
//!
//! /// Sends `state` to the service manager, if there is one; see `sd_notify(3)`.
//! fn notify(state: &str) -> io::Result<()> {
//!     let Ok(name) = std::env::var("NOTIFY_SOCKET") else {
//!         return Ok(());
//!     };
//!     let address = match name.strip_prefix('@') {
//!         Some(name) => SocketAddr::from_abstract_name(name)?,
//!         None => SocketAddr::from_pathname(name)?,
//!     };
//!     UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
//!     Ok(())
//! }
//!
//! let listener = listen()?;
//! notify("READY=1")?;
//! # assert_ne!(listener.local_addr()?.port(), 0);
//! # Ok::<(), io::Error>(())
//! ```
//!
//! To stop, cancel the fiber that accepts, and drop the listener. Do not [shut it down](crate::net::TcpListener::shutdown): that ends the
//! socket for all processes that have it.
//!
//! # On a Unix socket
//!
//! A proxy on the same machine needs no port:
//!
//! ```sh
//! uthread serve /srv/site --listen unix:/run/site/http.sock
//! curl --unix-socket /run/site/http.sock http://site/
//! ```
//!
//! - Whoever may write to the file may connect. It gets the permissions that the umask leaves: `UMask=0007` in the unit permits the
//!   user and the group of the service. `RuntimeDirectory=site` creates `/run/site`.
//! - The server removes the file when it stops. It replaces the file of a process that has ended, and refuses to start while another
//!   process listens there. So two processes cannot share a path; they can share an inherited socket (`ListenStream=/run/site.sock`).
//! - HAProxy calls it `unix@/run/site/http.sock`, and nginx `http://unix:/run/site/http.sock`.
//! - The client in the access log is `unix:`, as clients have no addresses. `tunnel --max-per-client` counts all of them as one.
//!
//! A program of your own binds a [`UnixListener`](crate::net::UnixListener), which does not remove or replace files.
//!
//! # Several processes
//!
//! One process uses all CPUs. Several of them let you replace one after the other, and survive the crash of one.
//!
//! - **One inherited socket.** The next process starts on the same socket, then the previous one gets SIGTERM. No connection is lost, as
//!   those in the queue belong to both.
//! - **One port, several sockets**: `--reuse-port`, or [`TcpSocket::set_reuse_port`](crate::net::TcpSocket::set_reuse_port). Each process
//!   has a queue of its own, to which the kernel assigns connections by a hash of their addresses. A process that drains accepts what is in
//!   its queue before it closes its socket; a connection that arrives between the two is reset. With the sysctl
//!   `net.ipv4.tcp_migrate_req=1` (Linux 5.14), the kernel gives such connections to another process.
//! - **A load balancer**, also across machines. This is a configuration for HAProxy:
//!
//! ```haproxy
//! defaults
//!     mode http
//!     timeout connect 5s
//!     timeout client 60s
//!     timeout server 60s
//!
//! frontend site
//!     bind :80
//!     default_backend servers
//!
//! backend servers
//!     balance leastconn
//!     option httpchk
//!     http-check send meth GET uri /health
//!     default-server check inter 1s fall 2 rise 1
//!     option redispatch 1
//!     retries 3
//!     retry-on conn-failure empty-response
//!     http-request disable-l7-retry unless { method GET HEAD }
//!     server one 127.0.0.1:8081
//!     server two 127.0.0.1:8082
//!     server three 127.0.0.1:8083
//! ```
//!
//! `/health` is a file of the site. Until the health check fails, HAProxy also sends requests to a server that has stopped, so it must retry
//! them. With `redispatch 1` each retry goes to another server immediately; otherwise HAProxy waits for a second. With these settings,
//! no request fails while all three servers are replaced under load.
//!
//! A server that drains answers the requests that it gets within a second on idle connections, with `Connection: close`. Then it closes these
//! connections. So a request that is on its way when the drain begins is not lost.
//!
//! # Containers
//!
//! - The default profiles of Docker, containerd and Podman forbid io_uring, and the server runs on epoll.
//!   [`drivers`](super::drivers#containers) says how to allow it; `uthread doctor`, run in the container, shows what is in effect.
//! - The number of workers follows the CPU quota.
//! - `serve` and `tunnel` stop on SIGTERM, and so does `echo`, also as process 1.
//! - Docker kills a container 10 s after SIGTERM. Set a shorter `--grace`, or a longer `docker stop --time`.
//! - Listen on `0.0.0.0`: the default address, `127.0.0.1`, is that of the container itself.
//!
//! # Limits
//!
//! - **Descriptors**: one per connection with `serve`, two with `tunnel`, and some for the process. The programs raise their soft limit to
//!   the hard one (`LimitNOFILE=`, `ulimit -Hn`), and warn if that is less than `--max-connections` needs. A program of your own has to
//!   raise it itself. Without a free descriptor, connections wait in the queue.
//! - **Queue**: 4,096 connections, if `net.core.somaxconn` allows that. For a socket of systemd, `Backlog=` sets it.
//! - **Memory**: `--max-connections` bounds it. `uthread doctor` prints what the limits of the machine allow.
//!
//! # Metrics
//!
//! [`Runtime::metrics`](crate::Runtime::metrics) counts what each worker has done, and how many fibers wait for it. Serve the metrics that
//! you want to watch as text, which Prometheus reads. `uthread serve --counters 127.0.0.1:9100` and `uthread tunnel` with the same option
//! serve their own, and those of the runtime, at an address of its own: `curl http://127.0.0.1:9100/metrics`.
//!
//! ```
//! use uthread::Runtime;
//!
//! fn counters(runtime: &Runtime) -> String {
//!     let total = runtime.metrics().total();
//!     let running = total.fibers - total.ended;
//!     format!("fibers {running}\nstalls {}\nsystem_calls {}\n", total.stalls, total.enters)
//! }
//!
//! let runtime = Runtime::new()?;
//! assert!(counters(&runtime).starts_with("fibers 0\n"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The crate `uthread-openmetrics` adds all metrics of the runtime to a registry of `prometheus-client`.
//!
//! Watch `stalls`: each is a fiber that has kept its worker for 100 ms while others waited. [`blocking`](super::blocking) shows how to
//! find it.
//!
//! Watch the scheduling delay: how long a fiber that becomes ready waits until it runs. It is measured if
//! [`Builder::sample_delays`](crate::Builder::sample_delays) asks for it, and by `--counters`. A server answers as late as that, at
//! least. If it grows while CPUs are idle, fibers keep their workers; if none is idle, the load is more than the workers can do, and
//! the number of ready fibers grows as well. In Prometheus, for the 99th percentile:
//!
//! ```text
//! histogram_quantile(0.99, sum by (le) (rate(uthread_scheduling_delay_seconds_bucket[5m])))
//! ```
//!
//! ---
//!
//! [Previous: fault tolerance](super::fault_tolerance) | [Contents](super) | [Next: tuning](super::tuning)
