//! The built-in pages: one style for listings and errors, no external resources, no scripts.

use std::fmt::Write;

use crate::http::response::Status;

/// The style sheet. [`SECURITY_POLICY`] contains its digest, and a test compares the two.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2127;--dim:#69707a;--line:#e3e6ea;--paper:#fff;--over:#f4f6f8;--link:#0a58ca}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--dim:#929aa5;--line:#2b3038;--paper:#14171b;--over:#1d2127;--link:#7ab0ff}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem}\
h1{font-size:1.25rem;font-weight:600;margin:0 0 1.25rem;overflow-wrap:anywhere}\
h1 span{color:var(--dim);font-weight:400;padding:0 .3em}\
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}\
table{width:100%;border-collapse:collapse}\
th{text-align:left;font-size:.8rem;font-weight:500;color:var(--dim)}\
th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line);vertical-align:baseline}\
tbody tr:hover{background:var(--over)}\
td:first-child{overflow-wrap:anywhere;width:100%}\
th:first-child,td:first-child{padding-left:1.9rem}\
.dir a{font-weight:600}\
.dir a::before{content:\"\";display:inline-block;width:.95em;height:.75em;margin:0 .45em 0 -1.4em;\
background:currentColor;clip-path:polygon(0 0,40% 0,52% 18%,100% 18%,100% 100%,0 100%)}\
.n{text-align:right;white-space:nowrap;color:var(--dim);font-variant-numeric:tabular-nums}\
.code{font-size:4rem;font-weight:700;line-height:1;color:var(--dim);margin:0 0 .5rem}\
p{margin:.75rem 0;color:var(--dim)}\
@media(max-width:36rem){main{padding:1.25rem .5rem}\
th,td{padding:.4rem .3rem}.n{font-size:.85rem}.date span{display:none}}";

/// Allows only the built-in style: nothing else loads, runs or sends. The digest is that of
/// [`STYLE`].
pub(crate) const SECURITY_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-tklwwlYK1Nsh2kmU9+vHimeSGVGxanDseGhlPlgR5pk='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Returns a whole document. `title` is plain text, `body` is HTML.
pub(crate) fn document(title: &str, body: &str) -> String {
    let mut html = String::with_capacity(STYLE.len() + body.len() + 512);
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.push_str(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
    );
    escape(title, &mut html);
    html.push_str("</title>\n<style>");
    html.push_str(STYLE);
    html.push_str("</style>\n</head>\n<body>\n<main>\n");
    html.push_str(body);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// Returns the page of an error.
pub(crate) fn error(status: Status) -> String {
    let mut body = String::new();
    writeln!(
        body,
        "<p class=\"code\">{}</p>\n<h1>{}</h1>\n<p>{}</p>",
        status.code(),
        status.phrase(),
        explanation(status)
    )
    .expect("a string takes every write");
    document(&format!("{} {}", status.code(), status.phrase()), &body)
}

/// Appends plain text as HTML, for an element or a quoted attribute.
pub(crate) fn escape(text: &str, html: &mut String) {
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // File names may contain control characters; HTML may not.
            control if control.is_control() => html.push(char::REPLACEMENT_CHARACTER),
            plain => html.push(plain),
        }
    }
}

/// Returns one sentence of explanation for a person.
fn explanation(status: Status) -> &'static str {
    match status {
        Status::BadRequest => "The server could not understand the request.",
        Status::Forbidden => "Access is not permitted.",
        Status::NotFound => "No page exists at this address.",
        Status::MethodNotAllowed => "This server supports only GET and HEAD.",
        Status::NotAcceptable => "None of the accepted encodings is available.",
        Status::RequestTimeout => "The request took too long to arrive.",
        Status::LengthRequired => "A request with a body must state its length.",
        Status::PreconditionFailed => "The file does not meet the conditions of the request.",
        Status::ContentTooLarge => "The request body is too large.",
        Status::UriTooLong => "The address is too long.",
        Status::RangeNotSatisfiable => "The file does not have the requested range.",
        Status::HeaderFieldsTooLarge => "The request has too many or too large header fields.",
        Status::InternalError => "The server met an error, and has logged it.",
        Status::NotImplemented => "The request needs a feature that this server lacks.",
        Status::Unavailable => "The server is busy. Please try again in a moment.",
        Status::VersionNotSupported => "This server supports HTTP/1.1 and HTTP/1.0.",
        // Without a page, or not of a server of files.
        Status::Ok
        | Status::PartialContent
        | Status::MovedPermanently
        | Status::NotModified
        | Status::BadGateway
        | Status::GatewayTimeout
        | Status::ProxyAuthenticationRequired => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn base64(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let word = chunk
                .iter()
                .fold(0_u32, |word, &byte| word << 8 | u32::from(byte))
                << (8 * (3 - chunk.len()));
            for index in 0..4 {
                if index <= chunk.len() {
                    let sextet = word >> (18 - 6 * index) & 63;
                    text.push(char::from(ALPHABET[sextet as usize]));
                } else {
                    text.push('=');
                }
            }
        }
        text
    }

    #[test]
    fn the_policy_allows_this_very_style() {
        let digest = base64(&Sha256::digest(STYLE));
        assert!(
            SECURITY_POLICY.contains(&format!("'sha256-{digest}'")),
            "STYLE has changed: put {digest} into SECURITY_POLICY"
        );
    }

    #[test]
    fn text_is_escaped() {
        let mut html = String::new();
        escape("<a href=\"x\">'&'</a>\u{1b}\n\u{e9}", &mut html);
        assert_eq!(
            html,
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\u{fffd}\u{fffd}\u{e9}"
        );
    }

    #[test]
    fn every_error_has_a_page_of_its_own() {
        for status in Status::ERRORS {
            assert!(!explanation(status).is_empty(), "{status:?}");
            assert!(error(status).contains(status.phrase()));
        }
    }
}
