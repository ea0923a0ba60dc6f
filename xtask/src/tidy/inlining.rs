//! The library leaves inlining to the compiler: few functions are always or never inlined, each
//! because the instruction counts or a thread-local need it.

use super::Finding;
use super::tree::Tree;

/// Largest number of such functions. Only one that accesses a thread-local is a reason to raise it.
const ATTRIBUTES_MAX: usize = 63;

const REMEDY: &str = "use none, or `#[cold]`, if `cargo xtask cost` shows no difference";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_number(tree, ATTRIBUTES_MAX)
}

/// Reports the attributes after the first `max`.
fn check_number(tree: &Tree, max: usize) -> Vec<Finding> {
    let sources = tree.sources();
    let sources = sources.filter(|(path, _)| path.starts_with("crates/uthread/src/"));
    let attributes = sources.flat_map(|(path, source)| {
        let pairs = source.tokens.windows(3).filter(|tokens| {
            tokens[0].text == "inline" && ["always", "never"].contains(&tokens[2].text.as_str())
        });
        pairs.map(move |tokens| (path, tokens[0].line))
    });
    let what = format!("more than {max} functions are always or never inlined");
    let finding = |(path, line)| Finding::new(path, line, what.clone(), REMEDY);
    attributes.skip(max).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn one_more_attribute_is_found_and_an_example_does_not_count() {
        plant(
            |tree| check_number(tree, 1),
            &[("crates/uthread/src/a.rs", "#[inline(never)]\nfn a() {}")],
            (
                "crates/uthread/src/b.rs",
                "/// #[inline(never)]\n#[inline]\n#[inline(always)]\nfn b() {}",
            ),
            &["crates/uthread/src/b.rs:3: more than 1 functions are always or never inlined"],
        );
    }
}
