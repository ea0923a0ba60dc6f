//! Files of a folder.

use std::fs::Metadata;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

use headers::{
    AcceptRanges, ContentLength, ContentRange, ContentType, HeaderMapExt, IfModifiedSince, IfRange,
    LastModified, Range,
};
use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;
use uthread::fs::File;

use crate::{Body, Failure, Handler, IntoResponse, Request, RequestExt, Response};

/// Serves the files of a folder: the handler of a route that ends with `{*path}`, by `GET`.
///
/// The type of a file is that of its extension, a folder is answered by its `index.html`, and a part of a file
/// by its `Range`. A client that has the file gets 304. Paths do not leave the folder by `..`, but links in
/// it are followed. For a site of many files, `uthread serve` moves the bytes inside the kernel.
///
/// ```
/// use uthread_http::{Files, Handler, Method, Request, Router};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("a.css"), "body {}")?;
/// let router = Router::new().get("/static/{*path}", Files::new(folder.path()));
/// let mut request = Request::default();
/// *request.uri_mut() = "/static/a.css".parse()?;
/// let response = router.call(request);
/// assert_eq!(response.headers()["content-type"], "text/css");
/// assert_eq!(&response.into_body().into_bytes()?[..], b"body {}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// Serves this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Files {
        Files {
            folder: folder.into(),
        }
    }

    fn answer(&self, request: &Request) -> Result<Response, Failure> {
        let asked = request.param("path").unwrap_or_default();
        let mut path = self.folder.join(relative(asked).ok_or_else(none)?);
        let (mut file, mut metadata) = open(&path)?;
        if metadata.is_dir() {
            path.push("index.html");
            (file, metadata) = open(&path)?;
        }
        if !metadata.is_file() {
            return Err(none());
        }
        let changed = LastModified::from(metadata.modified()?);
        let asked = request.headers();
        let since: Option<IfModifiedSince> = asked.typed_get();
        if since.is_some_and(|since| !since.is_modified(changed.into())) {
            return Ok(StatusCode::NOT_MODIFIED.into_response());
        }
        let mut response = part(asked, &changed, metadata.len(), file)?;
        let kind = new_mime_guess::from_path(&path).first_or_octet_stream();
        let headers = response.headers_mut();
        headers.typed_insert(ContentType::from(kind));
        headers.typed_insert(changed);
        headers.typed_insert(AcceptRanges::bytes());
        Ok(response)
    }
}

/// Returns the path, unless it would leave the folder.
fn relative(encoded: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(encoded).decode_utf8().ok()?;
    let path = Path::new(&*decoded);
    let mut parts = path.components();
    let is_inside = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (is_inside && !decoded.contains('\0')).then(|| path.to_owned())
}

fn none() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is no such file")
}

fn open(path: &Path) -> Result<(File, Metadata), Failure> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => none(),
        io::ErrorKind::PermissionDenied => {
            Failure::new(StatusCode::FORBIDDEN, "the file may not be read")
        }
        _ => error.into(),
    })?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Returns the file, or the part of it that the client has asked for.
fn part(
    asked: &HeaderMap,
    changed: &LastModified,
    size: u64,
    mut file: File,
) -> Result<Response, Failure> {
    let same: Option<IfRange> = asked.typed_get();
    let is_same = same.is_none_or(|same| !same.is_modified(None, Some(changed)));
    let range: Option<Range> = asked.typed_get().filter(|_| is_same);
    // Several at once are answered by all of it, as the protocol permits.
    let ranges = range
        .iter()
        .flat_map(|range| range.satisfiable_ranges(size));
    let ranges = Vec::from_iter(ranges.map(|range| bytes(range, size)));
    let (begin, end) = match (&range, &ranges[..]) {
        (Some(_), [(begin, end)]) if begin < end => (*begin, *end),
        (Some(_), [] | [_]) => {
            let mut response = StatusCode::RANGE_NOT_SATISFIABLE.into_response();
            let unsatisfied = ContentRange::unsatisfied_bytes(size);
            response.headers_mut().typed_insert(unsatisfied);
            return Ok(response);
        }
        _ => return Ok(whole(file, size)),
    };
    file.seek(SeekFrom::Start(begin))?;
    let mut response = whole(file, end - begin);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let range = ContentRange::bytes(begin..end, size)?;
    response.headers_mut().typed_insert(range);
    Ok(response)
}

/// Returns where a range begins, and where it ends.
fn bytes((first, last): (Bound<u64>, Bound<u64>), size: u64) -> (u64, u64) {
    let begin = match first {
        Bound::Included(begin) => begin,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match last {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => end,
        Bound::Unbounded => size,
    };
    (begin, end.min(size))
}

fn whole(file: File, length: u64) -> Response {
    let mut response = Response::new(Body::from_reader(file.take(length)));
    response.headers_mut().typed_insert(ContentLength(length));
    response
}

impl Handler for Files {
    fn call(&self, request: Request) -> Response {
        self.answer(&request).into_response()
    }
}
