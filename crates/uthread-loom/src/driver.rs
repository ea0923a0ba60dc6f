//! The protocols of the layer `driver`.

#[path = "../../uthread/src/driver/epoll/returned.rs"]
pub(crate) mod returned;
