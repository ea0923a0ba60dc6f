//! The peer on actix: only the web service. `dev/bench/peers/README.md` describes it.

use std::io;
use std::net::Ipv4Addr;

use actix_web::web::{Json, get};
use actix_web::{App, HttpServer};

#[path = "../../fatal.rs"]
mod fatal;
#[path = "../../page.rs"]
mod page;

use fatal::make_panics_fatal;
use page::{TEXT, page};

#[derive(serde::Serialize)]
struct Message {
    message: &'static str,
}

fn main() -> io::Result<()> {
    make_panics_fatal();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse::<u16>().expect("a number");
    match arguments[0].as_str() {
        "service" => serve(number(1), number(2)),
        unknown => panic!("unknown command {unknown}"),
    }
}

fn serve(port: u16, workers: u16) -> io::Result<()> {
    std::thread::spawn(|| {
        io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
        std::process::exit(0);
    });
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(|| {
            App::new()
                .route("/text", get().to(async || TEXT))
                .route("/json", get().to(async || Json(Message { message: TEXT })))
                .route("/page", get().to(async || page()))
        });
        let server = server
            .workers(workers.into())
            .bind_auto_h2c((Ipv4Addr::LOCALHOST, port))?;
        println!("{}", server.addrs()[0]);
        server.run().await
    })
}
