//! Counters of a server and of its runtime, which a small server of its own shows in the text
//! format of OpenMetrics.

use std::fmt::{self, Debug};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uthread::net::{self, TcpStream};
use uthread::{spawn, timeout};

use uthread_openmetrics::prometheus_client::collector::Collector;
use uthread_openmetrics::prometheus_client::encoding::text::encode;
use uthread_openmetrics::prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use uthread_openmetrics::prometheus_client::metrics::counter::ConstCounter;
use uthread_openmetrics::prometheus_client::metrics::gauge::ConstGauge;
use uthread_openmetrics::prometheus_client::registry::Registry;

use crate::args::CountersArgs;
use crate::http::response::Status;
use crate::input::Input;
use crate::listen::bind;
use crate::output::tell;

/// Readers of the counters at a time.
const READERS_MAX: usize = 16;
/// Time for a reader to send its request and to receive the counters.
const READER_TIME_MAX: Duration = Duration::from_secs(5);

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A server that has counters.
pub(crate) trait Counted: Debug + Send + Sync + 'static {
    /// The begin of their names.
    const PREFIX: &'static str;

    fn counts(&self) -> Vec<Count>;
}

/// A counter or gauge of a server.
pub(crate) struct Count {
    name: &'static str,
    help: &'static str,
    value: Value,
}

enum Value {
    /// Number of events since the server started. The format appends `_total` to the name.
    Counter(u64),
    /// Number of things that there are now.
    Gauge(u64),
}

impl Count {
    pub(crate) fn open_connections(count: usize) -> Count {
        Count {
            name: "connections_open",
            help: "Connections that are open.",
            value: Value::Gauge(count as u64),
        }
    }
}

/// Number of events since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, name: &'static str, help: &'static str) -> Count {
        let value = Value::Counter(self.get());
        Count { name, help, value }
    }
}

/// Starts a fiber that shows the counters of `server` and of the runtime to every client of the
/// address in `args`, if there is one.
pub(crate) fn start<S: Counted>(args: &CountersArgs, server: &Arc<S>) -> anyhow::Result<()> {
    let Some(addr) = args.counters else {
        return Ok(());
    };
    let listener = bind(addr, false)?;
    tell(format_args!(
        "counters on http://{}/metrics",
        listener.local_addr()?
    ));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(uthread_openmetrics::Collector));
    registry.register_collector(Box::new(OfServer(Arc::clone(server))));
    spawn(move || {
        // Ends only with the program: the listener is never shut down.
        let _ = net::serve(&listener, READERS_MAX, |stream, _| {
            // An error means that the reader has gone or takes too long.
            let _ = timeout(READER_TIME_MAX, || respond(&stream, &registry));
        });
    });
    Ok(())
}

fn respond(mut stream: &TcpStream, registry: &Registry) -> io::Result<()> {
    // Whatever it requests, also in a malformed head.
    let _head = Input::new().receive_head(stream)?;
    let mut body = String::new();
    encode(&mut body, registry).map_err(io::Error::other)?;
    let status = Status::Ok;
    let response = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        status.code(),
        status.phrase(),
        body.len(),
    );
    stream.write_all(response.as_bytes())
}

#[derive(Debug)]
struct OfServer<S>(Arc<S>);

impl<S: Counted> Collector for OfServer<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Count { name, help, value } in self.0.counts() {
            let name = format!("uthread_{}_{name}", S::PREFIX);
            match value {
                Value::Counter(count) => {
                    append(&mut encoder, &name, help, &ConstCounter::new(count))
                }
                Value::Gauge(count) => {
                    append(&mut encoder, &name, help, &ConstGauge::new(count as i64))
                }
            }?;
        }
        Ok(())
    }
}

fn append(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
