//! The web service, by axum.

use axum::serve::ListenerExt;
use axum::{Json, Router, routing::get};

use crate::echo::serve_by;
use crate::page::{TEXT, page};

#[derive(serde::Serialize)]
struct Message {
    message: &'static str,
}

pub(crate) fn serve(port: u16, workers: usize) {
    let router = Router::new()
        .route("/text", get(|| async { TEXT }))
        .route("/json", get(|| async { Json(Message { message: TEXT }) }))
        .route("/page", get(|| async { page() }));
    serve_by(port, workers, |listener| async {
        let listener =
            listener.tap_io(|stream| stream.set_nodelay(true).expect("a connected socket"));
        axum::serve(listener, router)
            .await
            .expect("it serves forever");
    });
}
