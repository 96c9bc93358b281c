//! A server that answers every request with nothing: what HTTP alone costs here.

use std::convert::Infallible;
use std::io::{self, Write};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Says where it listens and serves until it is killed.
pub async fn serve(out: &mut (dyn Write + Send)) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that goes away is the end of a measurement, not of the bench.
            drop(connection.serve_connection(TokioIo::new(stream), service_fn(nothing)).await);
        });
    }
}

async fn nothing(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    drop(request.into_body().collect().await);
    Ok(Response::new(Full::new(Bytes::from_static(b"{}"))))
}
