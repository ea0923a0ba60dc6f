//! The examples of the README of the project, compiled as doc tests here, because no package of the
//! library contains that file.

#![cfg(doctest)]

#[doc = include_str!("../../README.md")]
struct Readme;
