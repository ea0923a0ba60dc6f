//! The web service, by axum.

use axum::extract::Path;
use axum::serve::ListenerExt;
use axum::{Json, Router, routing::get};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio_postgres::NoTls;

use crate::database::{CONNECTIONS, SELECT, parameters};
use crate::echo::serve_by;
use crate::page::{TEXT, page};

#[derive(serde::Serialize)]
struct Message {
    message: &'static str,
}

/// Serves, with the folder of a database also its rows.
pub(crate) fn serve(port: u16, workers: usize, database: Option<&str>) {
    let mut router = Router::new()
        .route("/text", get(|| async { TEXT }))
        .route("/json", get(|| async { Json(Message { message: TEXT }) }))
        .route("/page", get(|| async { page() }));
    if let Some(folder) = database {
        let rows = pool(folder);
        router = router.route("/row/{id}", get(move |Path(id)| row(rows.clone(), id)));
    }
    serve_by(port, workers, |listener| async {
        let listener =
            listener.tap_io(|stream| stream.set_nodelay(true).expect("a connected socket"));
        axum::serve(listener, router)
            .await
            .expect("it serves forever");
    });
}

fn pool(folder: &str) -> Pool {
    let config = parameters(folder).parse().expect("they are valid");
    let fast = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let builder = Pool::builder(Manager::from_config(config, NoTls, fast));
    builder.max_size(CONNECTIONS).build().expect("a pool")
}

async fn row(rows: Pool, id: i32) -> String {
    let client = rows.get().await.expect("a connection");
    let select = client.prepare_cached(SELECT).await.expect("a statement");
    let row = client.query_one(&select, &[&id]).await.expect("a row");
    row.get(0)
}
