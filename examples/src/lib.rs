//! Examples of the README of the project and of the guide, compiled as doc tests here: no package of the
//! library contains the one, and the library does not depend on what the other uses.

#![cfg(doctest)]

#[doc = include_str!("../../README.md")]
struct Readme;

#[doc = include_str!("../../crates/uthread/src/guide/clients.md")]
struct Clients;

#[doc = include_str!("../../crates/uthread/src/guide/first_service.md")]
struct FirstService;
