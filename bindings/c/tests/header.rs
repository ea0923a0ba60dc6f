//! The header says what the functions take.

mod generated;

#[test]
fn the_header_is_that_of_the_functions() {
    generated::check(env!("CARGO_MANIFEST_DIR"), "uthread_ring.h");
    generated::check_page(
        env!("CARGO_MANIFEST_DIR"),
        "uthread_ring.h",
        "uthread_ring.7",
    );
}
