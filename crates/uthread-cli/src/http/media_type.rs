//! Media types, derived from file names.

/// A media type, and the properties that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaType {
    essence: &'static str,
    text: bool,
}

/// Binary types that compress well. The formats of other binary types are already compressed.
const COMPRESSIBLE: [&str; 5] = [
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/bmp",
];

impl MediaType {
    /// Returns the type for a file name. Unknown names are binary downloads, never guessed text.
    pub(crate) fn of_name(name: &[u8]) -> MediaType {
        let essence = extension(name)
            .and_then(|extension| new_mime_guess::from_ext(extension).first_raw())
            .unwrap_or("application/octet-stream");
        let essence = match essence {
            // Browsers, which `nosniff` forbids to guess, run no script of Node.js's type, as which
            // libraries for both are named. The other name is obsolete since RFC 9239.
            "application/node" | "application/javascript" => "text/javascript",
            essence => essence,
        };
        MediaType {
            essence,
            text: is_text(essence),
        }
    }

    pub(crate) fn essence(self) -> &'static str {
        self.essence
    }

    /// Returns the suffix of the essence in `Content-Type`. Browsers guess the charset of text
    /// without one; files are UTF-8.
    pub(crate) fn charset(self) -> &'static str {
        if self.text { "; charset=utf-8" } else { "" }
    }

    /// Returns true if it is worth looking for a precompressed variant.
    pub(crate) fn compresses(self) -> bool {
        self.text || COMPRESSIBLE.contains(&self.essence)
    }
}

fn extension(name: &[u8]) -> Option<&str> {
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    std::str::from_utf8(&name[dot + 1..]).ok()
}

fn is_text(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+xml")
        || essence.ends_with("+json")
        || matches!(
            essence,
            "application/json" | "application/xml" | "application/toml"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str, compresses: bool) {
        let found = MediaType::of_name(name.as_bytes());
        assert_eq!(
            format!("{}{}", found.essence(), found.charset()),
            expected,
            "{name}"
        );
        assert_eq!(found.compresses(), compresses, "{name}");
    }

    #[test]
    fn types() {
        check("index.html", "text/html; charset=utf-8", true);
        check("INDEX.HTML", "text/html; charset=utf-8", true);
        check("a.css", "text/css; charset=utf-8", true);
        check("a.js", "text/javascript; charset=utf-8", true);
        check("a.mjs", "text/javascript; charset=utf-8", true);
        check("a.umd.cjs", "text/javascript; charset=utf-8", true);
        check("a.json", "application/json; charset=utf-8", true);
        check("a.svg", "image/svg+xml; charset=utf-8", true);
        check("a.xml", "application/xml; charset=utf-8", true);
        check("a.txt", "text/plain; charset=utf-8", true);
        check("a.md", "text/markdown; charset=utf-8", true);
        check("a.toml", "application/toml; charset=utf-8", true);
        check("a.yaml", "text/yaml; charset=utf-8", true);
        check("a.js.map", "application/json; charset=utf-8", true);
        check("a.wasm", "application/wasm", true);
        check("a.otf", "font/otf", true);
        check("a.m4s", "video/iso.segment", false);
        check("a.png", "image/png", false);
        check("a.jpg", "image/jpeg", false);
        check("a.woff2", "font/woff2", false);
        check("a.tar.gz", "application/gzip", false);
        check("a.tar.zst", "application/zstd", false);
        check("README", "application/octet-stream", false);
        check("a.", "application/octet-stream", false);
        check("a.unheard-of", "application/octet-stream", false);
    }
}
