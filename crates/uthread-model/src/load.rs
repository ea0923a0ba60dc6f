//! The options that describe a load, before or after the subcommand: the program whose figures were
//! published has them before it.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use crate::latency::Latency;
use crate::scenario::{Arrivals, Client, Dependency, REQUESTS_MAX, Scenario, Service};
use crate::values::parse_rate;

/// Number of requests, unless the options have one.
const REQUESTS: u64 = 10_000;
/// Requests per second, unless the options have a rate.
const RATE: f64 = 1000.0;
/// Latencies of calls, unless the options have some.
const LATENCY: &str = "20ms*10";

// Without a doc comment, which would replace the description of the subcommands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Load {
    /// Number of requests [default: 10000]
    #[arg(short, long = "num_req", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX))]
    num_req: Option<u64>,

    /// Requests per second [default: 1000]
    #[arg(short, long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,

    /// Latencies of calls: "20ms*9,30s" one after the other, "lognormal(MEDIAN, DEVIATION)" or
    /// "file:PATH"; a call of 30s has failed [default: 20ms*10]
    #[arg(short, long, value_name = "LATENCY")]
    latency: Option<Latency>,

    /// When requests arrive: evenly, as many as have accumulated every 10 ms, or at random and
    /// independent of each other [default: even]
    #[arg(long, value_enum)]
    arrivals: Option<Spacing>,

    /// Title of the results
    #[arg(short = 'N', long)]
    name: Option<String>,

    /// Accepted for command lines of concurrency-demo-benchmarks: the page has the plots, and no
    /// Python draws them
    #[arg(
        short = 'p',
        long = "python_path",
        alias = "python",
        hide = true,
        value_name = "PATH"
    )]
    python_path: Option<PathBuf>,
}

/// How requests are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Spacing {
    Even,
    Poisson,
}

impl Load {
    /// Returns the options, and those of `outer` where these are absent.
    pub(crate) fn or(&self, outer: &Load) -> Load {
        let outer = outer.clone();
        let inner = self.clone();
        Load {
            num_req: inner.num_req.or(outer.num_req),
            rate: inner.rate.or(outer.rate),
            latency: inner.latency.or(outer.latency),
            arrivals: inner.arrivals.or(outer.arrivals),
            name: inner.name.or(outer.name),
            python_path: inner.python_path.or(outer.python_path),
        }
    }

    /// Returns the first option that is given.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let options = [
            ("--num_req", self.num_req.is_some()),
            ("--rate", self.rate.is_some()),
            ("--latency", self.latency.is_some()),
            ("--arrivals", self.arrivals.is_some()),
            ("--name", self.name.is_some()),
            ("--python_path", self.python_path.is_some()),
        ];
        let given = options.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }

    /// Returns the title, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| !name.is_empty())
    }

    fn requests(&self) -> u64 {
        self.num_req.unwrap_or(REQUESTS)
    }

    fn rate(&self) -> f64 {
        self.rate.unwrap_or(RATE)
    }

    fn latency(&self) -> Latency {
        let default = || LATENCY.parse().expect("a test parses it");
        self.latency.clone().unwrap_or_else(default)
    }

    /// Returns a scenario with this load, and no service.
    pub(crate) fn scenario(&self) -> Scenario {
        Scenario {
            name: self.name().unwrap_or_default().to_owned(),
            about: String::new(),
            requests: self.requests(),
            seed: 0,
            arrivals: match self.arrivals {
                Some(Spacing::Poisson) => Arrivals::Poisson { rate: self.rate() },
                Some(Spacing::Even) | None => Arrivals::LeakyBucket { rate: self.rate() },
            },
            dependencies: vec![Dependency::new(self.latency())],
            service: Service::default(),
            sync: None,
            fibers: None,
            client: Client::default(),
        }
    }
}

impl Display for Load {
    /// Writes the options for a shell.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "--num_req {} --rate {} --latency '{}'",
            self.requests(),
            self.rate(),
            self.latency()
        )?;
        match self.arrivals {
            Some(Spacing::Poisson) => formatter.write_str(" --arrivals poisson"),
            Some(Spacing::Even) | None => Ok(()),
        }
    }
}
