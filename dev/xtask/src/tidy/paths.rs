//! The paths of modules that code names, in imports and elsewhere.

use super::tree::line_at;

/// Returns the paths that the code of the module `own` names, from the root on, with their lines.
pub(super) fn used_paths<'a>(code: &'a str, own: &[&'a str]) -> Vec<(usize, Vec<&'a str>)> {
    let mut used = Vec::new();
    // The end of the last path: paths in its lists belong to it.
    let mut end = 0;
    for (start, _) in code.match_indices("::") {
        let begin = code[..start].rfind(|c: char| !is_in_name(c));
        let begin = begin.map_or(0, |before| before + 1);
        let base = match &code[begin..start] {
            "crate" => Vec::new(),
            "self" => own.to_vec(),
            // Modules within the file have no names here, and count only as steps.
            "super" => {
                let within = own.len() + inline_modules(code, begin);
                own.iter().copied().take(within.saturating_sub(1)).collect()
            }
            _ => continue,
        };
        let line = code[..begin].rsplit('\n').next().unwrap_or_default();
        let is_in_string = line.matches('"').count() % 2 == 1;
        // Not in the middle of a path.
        if !is_in_string && !line.ends_with("::") && begin >= end {
            end = code.len() - follow(code, &code[start + 2..], base, &mut used).len();
        }
    }
    used
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Counts the modules within the file that are open at an offset, by the indentation of formatted
/// code.
fn inline_modules(code: &str, offset: usize) -> usize {
    let mut open: Vec<usize> = Vec::new();
    for line in code[..offset].lines() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        open.pop_if(|last| *last == depth && text.starts_with('}'));
        let declared = text.strip_prefix("pub(crate) ").unwrap_or(text);
        if declared.starts_with("mod ") && text.ends_with('{') {
            open.push(depth);
        }
    }
    open.len()
}

/// Follows the path at the start of `text`, the end of `code`, below the module `base`. Returns the
/// text after it.
fn follow<'a>(
    code: &'a str,
    text: &'a str,
    mut base: Vec<&'a str>,
    used: &mut Vec<(usize, Vec<&'a str>)>,
) -> &'a str {
    let mut text = text.trim_start();
    if let Some(list) = text.strip_prefix('{') {
        text = list.trim_start();
        while !text.is_empty() && !text.starts_with('}') {
            let after = follow(code, text, base.clone(), used);
            // An alias or a star may follow.
            let after = after.trim_start_matches(|c| c != ',' && c != '}');
            text = after.trim_start_matches(',').trim_start();
        }
        return text.strip_prefix('}').unwrap_or(text);
    }
    let line = line_at(code, code.len() - text.len());
    let end = text.find(|c| !is_in_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "super" => drop(base.pop()),
        "self" => {}
        // A star, which means the module itself.
        "" if !base.is_empty() => {}
        name => base.push(name),
    }
    if let Some(below) = rest.strip_prefix("::") {
        return follow(code, below, base, used);
    }
    used.push((line, base));
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_path_is_seen() {
        let cases = [
            ("fn a() -> crate::b::C {}", "b::C"),
            (
                "use crate::{\n    b,\n    c::{self, D as E},\n};",
                "b c c::D",
            ),
            ("use super::b;", "own::b"),
            ("use super::super::{super::c::D, e};", "c::D e"),
            ("use self::b::*;", "own::file::b"),
            (
                "pub(crate) mod inner {\n    use super::b;\n}\nuse super::c;",
                "own::file::b own::c",
            ),
            ("use crate::*; const A: &str = \"crate::b\";", ""),
            ("use a::b::super_c; let d = crates::e;", ""),
        ];
        for (code, expected) in cases {
            let used = used_paths(code, &["own", "file"]);
            let used: Vec<String> = used.iter().map(|(_, path)| path.join("::")).collect();
            assert_eq!(used.join(" "), expected, "{code}");
        }
        assert_eq!(used_paths("\nuse crate::{\n    b,\n};", &[])[0].0, 3);
    }
}
