//! What `std` has in `std::os`.

pub mod unix;
