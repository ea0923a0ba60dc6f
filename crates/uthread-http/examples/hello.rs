//! A service of notes: JSON in, JSON out.

use std::sync::Mutex;

use uthread::net::TcpListener;
use uthread_http::{Failure, Json, Request, RequestExt, Router, Server, StatusCode};

static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn add(request: Request) -> Result<(StatusCode, Json<usize>), Failure> {
    let note = request.json()?;
    let mut notes = NOTES.lock().unwrap();
    notes.push(note);
    Ok((StatusCode::CREATED, Json(notes.len() - 1)))
}

fn show(request: Request) -> Result<Json<String>, Failure> {
    let missing = || Failure::new(StatusCode::NOT_FOUND, "no such note");
    let number = request.param("number").and_then(|text| text.parse().ok());
    let note = number.and_then(|number: usize| NOTES.lock().unwrap().get(number).cloned());
    note.map(Json).ok_or_else(missing)
}

#[uthread::main]
fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:8080")?;
    println!("http://{}/notes", listener.local_addr()?);
    let router = Router::new()
        .post("/notes", add)
        .get("/notes/{number}", show);
    Server::new(router).serve(&listener)
}
