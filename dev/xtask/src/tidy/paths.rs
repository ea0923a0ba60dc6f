//! The paths of modules that code names, in imports and elsewhere.

use std::iter;

use super::source::Source;

/// Returns the paths that the code of the module `own` names, from the root on, with their lines.
pub(super) fn used_paths<'a>(source: &'a Source, own: &[&'a str]) -> Vec<(usize, Vec<&'a str>)> {
    let mut used = Vec::new();
    for index in 0..source.tokens.len() {
        let nesting = source.tokens[index].nesting;
        let starts = index == 0 || source.text(index - 1) != "::";
        // Modules within the file have no names here, and count only as steps that `super` goes up.
        let here = || {
            own.iter()
                .copied()
                .chain(iter::repeat_n("", nesting.modules))
        };
        let base: Vec<&str> = match source.text(index) {
            "crate" => Vec::new(),
            "super" if starts => here()
                .take((own.len() + nesting.modules).saturating_sub(1))
                .collect(),
            "self" if starts => here().collect(),
            _ => continue,
        };
        if !nesting.tests && source.text(index + 1) == "::" {
            follow(source, index + 2, base, &mut used);
        }
    }
    used
}

/// Follows a path from the token at `index`, below the module `base`.
fn follow<'a>(
    source: &'a Source,
    index: usize,
    mut base: Vec<&'a str>,
    used: &mut Vec<(usize, Vec<&'a str>)>,
) {
    match source.text(index) {
        "super" => {
            base.pop();
            follow(source, index + 2, base, used);
        }
        "{" => {
            for start in source.elements(index) {
                follow(source, start, base.clone(), used);
            }
        }
        "}" | "" => {}
        "self" | "*" if !base.is_empty() => used.push((source.tokens[index].line, base)),
        name => {
            base.push(name);
            match source.text(index + 1) {
                "::" => follow(source, index + 2, base, used),
                _ => used.push((source.tokens[index].line, base)),
            }
        }
    }
}
