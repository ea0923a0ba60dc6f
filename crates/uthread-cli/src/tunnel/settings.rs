//! What a running tunnel can change: settings that are read again on SIGHUP.
//!
//! A request keeps those that it began with, and nothing is dropped.

use std::num::NonZeroU64;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use uthread_rustls::server_config;

use super::policies::Policies;
use super::users::Users;
use crate::args::TunnelArgs;
use crate::targets::AllowList;

#[derive(Debug)]
pub(super) struct Settings {
    /// `None` where the target is not the client's choice.
    pub(super) allowed: Option<AllowList>,
    /// `None` if clients need no credentials.
    pub(super) users: Option<Users>,
    /// `None` without TLS.
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) policies: Policies,
    pub(super) rate_max: Option<NonZeroU64>,
    pub(super) header_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) lifetime_max: Option<Duration>,
    /// Time for which a name's addresses are used again.
    pub(super) name_age_max: Duration,
}

impl Settings {
    /// Reads the files that the arguments name.
    pub(super) fn load(args: &TunnelArgs) -> anyhow::Result<Settings> {
        // A proxy has one protocol; that of a forwarder's target is not known.
        let protocols: &[&str] = if args.to.is_none() {
            &["http/1.1"]
        } else {
            &[]
        };
        let tls = match (&args.tls_certificate, &args.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Arc::new(server_config(certificate, key, protocols)?))
            }
            _ => None,
        };
        Ok(Settings {
            allowed: args.to.is_none().then(|| AllowList(args.allow.clone())),
            users: args.users.as_deref().map(Users::read).transpose()?,
            tls,
            policies: Policies::new(args.retries, args.breaker, args.breaker_time),
            rate_max: args.rate,
            header_timeout: args.header_timeout,
            connect_timeout: args.connect_timeout,
            idle_timeout: args.idle_timeout,
            lifetime_max: args.lifetime,
            name_age_max: args.name_age,
        })
    }
}

/// The settings in effect.
#[derive(Debug)]
pub(super) struct Current(RwLock<Arc<Settings>>);

impl Current {
    pub(super) fn new(settings: Settings) -> Current {
        Current(RwLock::new(Arc::new(settings)))
    }

    pub(super) fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, settings: Settings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
