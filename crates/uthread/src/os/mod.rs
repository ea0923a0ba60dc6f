//! OS-specific extensions, with the names of `std::os`.

pub mod unix;
