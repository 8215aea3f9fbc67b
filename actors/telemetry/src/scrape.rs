//! The listener for metrics of a leader or worker: plain HTTP, one path. It has a thread of its
//! own, so that a slow or frequent client blocks no actor. Connections are few, also per address,
//! and bounded in bytes and time. A new connection takes the place of the one that was idle
//! longest.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use listener::{Bounds, ConnectionPlace, Places};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::Telemetry;
use crate::exposition::METRICS_TYPE;
use crate::openmetrics::{OPENMETRICS_TYPE, is_preferred};

/// The only path.
const PATH: &str = "/metrics";
/// Maximum number of connections, in total and per address, and maximum time of a write without
/// progress.
const BOUNDS: Bounds = Bounds {
    connections: 64,
    share: 16,
    write: Duration::from_secs(10),
};
/// Timeout for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// Maximum lifetime of a connection; Prometheus then opens another one.
const LIFE: Duration = Duration::from_secs(300);
/// Maximum size of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// Pause after a failed accept, for example with too many open files.
const AGAIN: Duration = Duration::from_millis(100);

/// Serves a process's metrics until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves the metrics of `telemetry` at the address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(telemetry: Telemetry, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    ended = accept(listener, telemetry, address) => if let Err(error) = ended {
                        tracing::warn!(%error, "metrics cannot be read any more");
                    },
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("metrics".into());
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread.spawn(serve)?),
        })
    }

    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has no result, and a panic in it was printed.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, telemetry: Telemetry, at: SocketAddr) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Places::new(BOUNDS);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // No connection is refused: each waits for its peer, because answers are made at
                // once.
                let Some(place) = places.admit(peer.ip()) else {
                    continue;
                };
                let telemetry = telemetry.clone();
                tokio::spawn(async move {
                    let served = connection(stream, &place, telemetry, at);
                    tokio::select! {
                        _ = tokio::time::timeout(LIFE, served) => {}
                        () = place.displaced() => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "taking a connection for metrics");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    place: &ConnectionPlace,
    telemetry: Telemetry,
    at: SocketAddr,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &telemetry, at);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(place.timed(stream)), service)
        .await;
    if let Err(error) = served {
        // The peer is gone.
        tracing::debug!(%error, "a connection for metrics");
    }
}

fn answer<B>(request: &Request<B>, telemetry: &Telemetry, at: SocketAddr) -> Response<String> {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    if at.ip().is_loopback() && !names_this_host(host) {
        // A page of another site with a name that resolves to this host.
        return plain(
            StatusCode::FORBIDDEN,
            "the header Host names no address of this host\n",
        );
    }
    if request.uri().path() != PATH {
        return plain(StatusCode::NOT_FOUND, "there is only /metrics\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "this is only read\n");
        let methods = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, methods);
        return refused;
    }
    let accepted = request.headers().get(ACCEPT);
    let accepted = accepted.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (page, kind) = match is_preferred(accepted) {
        true => (telemetry.openmetrics(), OPENMETRICS_TYPE),
        false => (telemetry.exposition(), METRICS_TYPE),
    };
    let mut page = Response::new(page.unwrap_or_default());
    let kind = HeaderValue::from_static(kind);
    page.headers_mut().insert(CONTENT_TYPE, kind);
    page
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// True if a request's `Host` is an address of this host or a name that every host has for itself.
/// This detects a page of another site with a name that resolves to this host.
#[must_use]
pub fn names_this_host(host: &str) -> bool {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || bare
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_host_are_told_from_others() {
        for host in ["localhost", "localhost:9464", "127.0.0.2:1", "[::1]:9464"] {
            assert!(names_this_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example:9464",
            "10.0.0.1",
            "localhost.evil.example",
        ] {
            assert!(!names_this_host(host), "{host}");
        }
    }
}
