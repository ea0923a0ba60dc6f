//! The protocols of the layer `driver`.

#[path = "../../../../crates/uthread/src/driver/epoll/returned.rs"]
pub(crate) mod returned;
