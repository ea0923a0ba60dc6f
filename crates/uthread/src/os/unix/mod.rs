//! What `std` has in `std::os::unix`.

pub mod fs;
