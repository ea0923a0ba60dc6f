//! Builds the response to a request: selects the file, its encoding and its ranges, and writes the
//! head.
//!
//! The head is written into the buffer. The body is only described, so that `send.rs` can choose
//! how to send it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;
use uthread::fs::File;

use super::cache::{HeadKey, Image};
use super::error_pages::ErrorPages;
use super::etag::Etag;
use super::locate::{Found, locate};
use super::root::{Content, Opened, Regular, Root};
use super::scratch::Scratch;
use super::site::Site;
use super::{listing, page, target};
use crate::http::conditional::{self, Validators, Verdict};
use crate::http::date;
use crate::http::media_type::MediaType;
use crate::http::negotiate::{self, Coding};
use crate::http::range::{self, Selection, Span};
use crate::http::request::{Method, Request};
use crate::http::response::{HeadWriter, Persistence, Status};
use crate::output::tell;

/// Tells clients when to retry after a 503: a shortage here does not last longer.
const RETRY_AFTER_S: u64 = 2;

/// A response whose head is in the buffer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: Status,
    /// Length of the body that will be sent, buffered or not.
    pub(crate) body_bytes: u64,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// Buffered after the head, or empty.
    Buffered,
    /// In memory, with the head before it; the buffer is empty.
    Image(Arc<Image>),
    /// One range of a file.
    Span(Content, Span),
    /// Several ranges of a file, each after its own head (multipart/byteranges).
    Parts(Content, Vec<Part>),
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) head: String,
    /// `None` for the last part, which only ends the body.
    pub(crate) span: Option<Span>,
}

/// Responds to a valid request, which had been received when it was `asked`.
pub(crate) fn respond(
    site: &Site,
    request: &Request<'_, '_>,
    asked: Instant,
    persistence: Persistence,
    out: &mut Vec<u8>,
) -> Response {
    if request.method == Method::Other {
        return error(
            &site.error_pages,
            Status::MethodNotAllowed,
            Method::Get,
            persistence,
            out,
        );
    }
    let mut answer = Answer {
        request,
        asked,
        persistence,
        out,
    };
    let mut path = Scratch::take();
    let result = match locate(site, request.path_and_query, &mut path, asked) {
        Ok(Found::File(regular)) => answer.file(site, &mut path, regular),
        Ok(Found::Directory(dir)) => answer.listing(&site.root, &dir, &path),
        Ok(Found::Elsewhere) => Ok(answer.redirect(&path)),
        Err(status) => Err(status),
    };
    result.unwrap_or_else(|status| {
        error(
            &site.error_pages,
            status,
            request.method,
            persistence,
            answer.out,
        )
    })
}

/// Responds with an error and its page; to `HEAD` without the page.
pub(crate) fn error(
    pages: &ErrorPages,
    status: Status,
    method: Method,
    persistence: Persistence,
    out: &mut Vec<u8>,
) -> Response {
    error_with(pages, status, method, persistence, out, |_| {})
}

fn error_with(
    pages: &ErrorPages,
    status: Status,
    method: Method,
    persistence: Persistence,
    out: &mut Vec<u8>,
    fields: impl FnOnce(&mut HeadWriter<'_>),
) -> Response {
    let page = pages.of(status);
    let mut head = HeadWriter::begin(out, status);
    match status {
        Status::MethodNotAllowed => head.text("Allow", "GET, HEAD"),
        Status::Unavailable => head.number("Retry-After", RETRY_AFTER_S),
        _ => &mut head,
    };
    fields(&mut head);
    head.text("Content-Type", "text/html; charset=utf-8")
        .number("Content-Length", page.html.len() as u64);
    if page.built_in {
        head.text("Content-Security-Policy", page::SECURITY_POLICY);
    }
    head.end(persistence);
    buffered(status, method, &page.html, out)
}

fn buffered(status: Status, method: Method, body: &[u8], out: &mut Vec<u8>) -> Response {
    let body = if method == Method::Head { b"" } else { body };
    out.extend_from_slice(body);
    Response {
        status,
        body_bytes: body.len() as u64,
        body: Body::Buffered,
    }
}

/// A response while its head is written.
struct Answer<'a, 'h, 'b> {
    request: &'a Request<'h, 'b>,
    /// When the request had been received.
    asked: Instant,
    persistence: Persistence,
    out: &'a mut Vec<u8>,
}

impl Answer<'_, '_, '_> {
    fn redirect(&mut self, path: &[u8]) -> Response {
        let mut location = String::new();
        target::encode(path, &mut location);
        location.push('/');
        target::encode_query(
            target::split_query(self.request.path_and_query).1,
            &mut location,
        );
        let mut head = HeadWriter::begin(self.out, Status::MovedPermanently);
        head.text("Location", location)
            .number("Content-Length", 0)
            .end(self.persistence);
        buffered(Status::MovedPermanently, self.request.method, b"", self.out)
    }

    fn listing(&mut self, root: &Root, dir: &File, path: &[u8]) -> Result<Response, Status> {
        let (_, query) = target::split_query(self.request.path_and_query);
        let view = listing::View::of(query);
        let html = uthread::blocking(|| listing::page(root, dir, path, view)).map_err(|error| {
            tell(format_args!(
                "cannot list /{}: {error}",
                path.escape_ascii()
            ));
            Status::InternalError
        })?;
        HeadWriter::begin(self.out, Status::Ok)
            .text("Content-Type", "text/html; charset=utf-8")
            .number("Content-Length", html.len() as u64)
            .text("Cache-Control", "no-cache")
            .text("Content-Security-Policy", page::SECURITY_POLICY)
            .end(self.persistence);
        Ok(buffered(
            Status::Ok,
            self.request.method,
            html.as_bytes(),
            self.out,
        ))
    }

    fn file(
        &mut self,
        site: &Site,
        path: &mut Vec<u8>,
        plain: Regular,
    ) -> Result<Response, Status> {
        let media_type = MediaType::of_name(path);
        let (regular, coding) = self.variant(&site.root, path, media_type, plain)?;
        let now_s = date::now_s();
        let form = Form {
            media_type,
            coding,
            etag: Etag::new(&regular.stamp, coding),
            // A server must not send a date later than `Date` (RFC 9110, section 8.8.2.1).
            modified_s: regular.stamp.modified.0.min(now_s),
        };
        let validators = Validators {
            etag: form.etag.as_bytes(),
            modified_s: form.modified_s,
            changed_s: regular.stamp.changed.0,
        };
        match conditional::weigh(self.request, &validators) {
            Verdict::Proceed => {}
            Verdict::NotModified => return Ok(self.not_modified(&form)),
            Verdict::Failed => return Err(Status::PreconditionFailed),
        }
        let selection = match self.range_field(&validators, now_s) {
            Some(field) => range::select(field, regular.bytes()),
            None => Selection::Whole,
        };
        Ok(match selection {
            Selection::Whole => self.whole(&form, regular, now_s),
            Selection::Spans(spans) => match spans[..] {
                [span] => self.single_part(&form, regular, span),
                _ => self.multipart(&form, regular, &spans),
            },
            Selection::Unsatisfiable => error_with(
                &site.error_pages,
                Status::RangeNotSatisfiable,
                self.request.method,
                self.persistence,
                self.out,
                |head| {
                    head.formatted("Content-Range", format_args!("bytes */{}", regular.bytes()));
                },
            ),
        })
    }

    /// Opens the file itself, or a precompressed variant that the client accepts and prefers.
    ///
    /// Looks for variants only if the client sends `Accept-Encoding` and the content compresses: a
    /// missing variant costs a failed open, though the kernel answers it from its dentry cache.
    fn variant(
        &self,
        root: &Root,
        path: &mut Vec<u8>,
        media_type: MediaType,
        plain: Regular,
    ) -> Result<(Regular, Coding), Status> {
        if !media_type.compresses() || self.request.values("accept-encoding").next().is_none() {
            return Ok((plain, Coding::Identity));
        }
        let plain_bytes = path.len();
        for coding in negotiate::rank(self.request.values("accept-encoding")) {
            if coding == Coding::Identity {
                return Ok((plain, Coding::Identity));
            }
            path.extend_from_slice(coding.suffix().as_bytes());
            let opened = root.get(path, self.asked);
            path.truncate(plain_bytes);
            // If a variant cannot be sent, the file itself still can.
            if let Ok(Opened::File(regular)) = opened {
                return Ok((regular, coding));
            }
        }
        Err(Status::NotAcceptable)
    }

    /// Returns the `Range` field if it applies. It is defined for GET only.
    fn range_field(&self, validators: &Validators<'_>, now_s: i64) -> Option<&[u8]> {
        let field = self.request.single("range")?;
        (self.request.method == Method::Get
            && conditional::range_holds(self.request, validators, now_s))
        .then_some(field)
    }

    fn not_modified(&mut self, form: &Form) -> Response {
        let mut head = HeadWriter::begin(self.out, Status::NotModified);
        form.write_validators(&mut head);
        head.end(self.persistence);
        buffered(Status::NotModified, self.request.method, b"", self.out)
    }

    fn whole(&mut self, form: &Form, regular: Regular, second: i64) -> Response {
        let is_plain = self.request.method == Method::Get && self.persistence == Persistence::Open;
        if let Content::Cached(kept) = &regular.content
            && is_plain
        {
            let coding = form.coding;
            let image = kept.image_with_head(HeadKey { second, coding }, |out| {
                form.write_whole_head(regular.bytes(), Persistence::Open, out);
            });
            return Response {
                status: Status::Ok,
                body_bytes: regular.bytes(),
                body: Body::Image(image),
            };
        }
        form.write_whole_head(regular.bytes(), self.persistence, self.out);
        let span = Span {
            offset: 0,
            bytes: regular.bytes(),
        };
        self.span(Status::Ok, regular, span)
    }

    fn single_part(&mut self, form: &Form, regular: Regular, span: Span) -> Response {
        let mut head = HeadWriter::begin(self.out, Status::PartialContent);
        form.write_content_type(&mut head);
        head.number("Content-Length", span.bytes).formatted(
            "Content-Range",
            format_args!("bytes {}-{}/{}", span.offset, span.last(), regular.bytes()),
        );
        form.write_validators(&mut head);
        head.end(self.persistence);
        self.span(Status::PartialContent, regular, span)
    }

    fn span(&self, status: Status, regular: Regular, span: Span) -> Response {
        if self.request.method == Method::Head || span.bytes == 0 {
            return Response {
                status,
                body_bytes: 0,
                body: Body::Buffered,
            };
        }
        Response {
            status,
            body_bytes: span.bytes,
            body: Body::Span(regular.content, span),
        }
    }

    fn multipart(&mut self, form: &Form, regular: Regular, spans: &[Span]) -> Response {
        // Random, so that no content can contain it on purpose.
        let boundary = format!(
            "uthread-{:016x}",
            RandomState::new().build_hasher().finish()
        );
        let mut parts: Vec<Part> = spans
            .iter()
            .map(|&span| Part {
                head: format!(
                    "\r\n--{boundary}\r\nContent-Type: {}{}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
                    form.media_type.essence(),
                    form.media_type.charset(),
                    span.offset,
                    span.last(),
                    regular.bytes()
                ),
                span: Some(span),
            })
            .collect();
        parts.push(Part {
            head: format!("\r\n--{boundary}--\r\n"),
            span: None,
        });
        let body_bytes = parts
            .iter()
            .map(|part| part.head.len() as u64 + part.span.map_or(0, |span| span.bytes))
            .sum();

        let mut head = HeadWriter::begin(self.out, Status::PartialContent);
        head.formatted(
            "Content-Type",
            format_args!("multipart/byteranges; boundary={boundary}"),
        )
        .number("Content-Length", body_bytes);
        form.write_validators(&mut head);
        head.end(self.persistence);
        Response {
            status: Status::PartialContent,
            body_bytes,
            body: Body::Parts(regular.content, parts),
        }
    }
}

/// The fields that describe a file, whichever range of it is sent.
struct Form {
    media_type: MediaType,
    coding: Coding,
    etag: Etag,
    modified_s: i64,
}

impl Form {
    /// Writes the head of a response that sends the whole file.
    fn write_whole_head(&self, bytes: u64, persistence: Persistence, out: &mut Vec<u8>) {
        let mut head = HeadWriter::begin(out, Status::Ok);
        self.write_content_type(&mut head);
        head.number("Content-Length", bytes);
        self.write_validators(&mut head);
        head.text("Accept-Ranges", "bytes").end(persistence);
    }

    fn write_content_type(&self, head: &mut HeadWriter<'_>) {
        head.text_pair(
            "Content-Type",
            self.media_type.essence(),
            self.media_type.charset(),
        );
    }

    /// Writes the fields that a cache needs to store and revalidate the response.
    fn write_validators(&self, head: &mut HeadWriter<'_>) {
        head.text("Last-Modified", date::format(self.modified_s))
            .text("ETag", self.etag.as_bytes());
        if self.coding != Coding::Identity {
            head.text("Content-Encoding", self.coding.name());
        }
        if self.media_type.compresses() {
            head.text("Vary", "Accept-Encoding");
        }
    }
}
