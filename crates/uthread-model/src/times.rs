//! The time that a request takes without waiting and outside of spikes, by its calls.

/// The times of a service, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Work and all calls.
    pub(crate) seconds: f64,
    /// The calls of each dependency.
    pub(crate) calls: Vec<Call>,
}

/// The time of a call, as if all servers of the dependency had as many.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) seconds: f64,
    /// Number of servers.
    pub(crate) servers: usize,
    /// The times of a server that is a tier, if one is.
    pub(crate) tier: Option<Times>,
}

impl Times {
    pub(crate) fn new(work: f64, calls: Vec<Call>) -> Times {
        let seconds = work + calls.iter().map(|call| call.seconds).sum::<f64>();
        Times { seconds, calls }
    }
}
