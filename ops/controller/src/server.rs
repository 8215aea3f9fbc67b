//! The controller's listener and its connections. They are bounded in number, in all and by
//! address, and in the time of a head and of each write. TLS is required wherever other hosts can
//! connect.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use admin::errors::{ErrorCode, UsageError};
use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use listener::{Answering, Bounds, ConnectionPlace, Places};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::http::gate::Peer;

/// The default port; the next ports are tried if it is taken.
const PORT: u16 = 7_070;
/// Number of ports that are tried.
const PORTS: u16 = 20;
/// Maximum number of connections, in all and per address, and the maximum time of a write without
/// progress.
pub(crate) const BOUNDS: Bounds = Bounds {
    connections: 2_048,
    share: 512,
    write: Duration::from_secs(30),
};
/// Maximum time for the head of a request, and for the TLS handshake.
const HEAD: Duration = Duration::from_secs(10);
/// Maximum time for requests in progress after the controller is told to stop.
const STOP: Duration = Duration::from_secs(2);
/// Delay before the next accept after an error, such as too many open files.
const AGAIN: Duration = Duration::from_millis(100);

/// Loads the certificate and key for https.
pub(crate) fn tls(cert: Option<&str>, key: Option<&str>) -> Result<Option<TlsAcceptor>> {
    let (cert, key) = match (cert, key) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => (Path::new(cert), Path::new(key)),
        _ => bail!(UsageError(
            "controller.tls_cert and controller.tls_key go together: one of them is missing".into()
        )),
    };
    let read = || -> Result<ServerConfig> {
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| ErrorCode::ApiTls.failed(format!("reading {}", cert.display())))?;
        let key = PrivateKeyDer::from_pem_file(key)
            .with_context(|| ErrorCode::ApiTls.failed(format!("reading {}", key.display())))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        config.context(ErrorCode::ApiTls.failed("the certificate and its key"))
    };
    let mut config = read()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Listens. Without TLS only this host can connect.
pub(crate) async fn listen(address: Option<&str>, secure: bool) -> Result<TcpListener> {
    let Some(text) = address else {
        for port in PORT..PORT + PORTS {
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                return Ok(listener);
            }
        }
        let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        return any.context(ErrorCode::ApiListen.failed("listening on 127.0.0.1"));
    };
    let address: SocketAddr = text.parse().map_err(|_| {
        UsageError(format!(
            "controller.listen = {text:?} is not ADDRESS:PORT, such as 127.0.0.1:7070"
        ))
    })?;
    if !address.ip().is_loopback() && !secure {
        bail!(UsageError(format!(
            "controller.listen = {text}: others than this host could come, and without \
             controller.tls_cert and controller.tls_key anybody between could read their tokens; set \
             both, or listen on 127.0.0.1"
        )));
    }
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| ErrorCode::ApiListen.failed(format!("listening on {address}")))
}

/// The URL for a browser on this host.
pub(crate) fn url(address: SocketAddr, secure: bool) -> String {
    let scheme = if secure { "https" } else { "http" };
    let any = address.ip().is_unspecified();
    let host = match address.ip() {
        _ if any => "localhost".into(),
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    format!("{scheme}://{host}:{}", address.port())
}

/// Serves until the controller is told to stop; requests in progress get a short time to end.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    bounds: Bounds,
) {
    let places = Places::new(bounds);
    let mut connections = JoinSet::new();
    loop {
        // Reaps finished connections.
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = told(&mut stopping) => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => (stream, peer.ip()),
            Err(error) => {
                tracing::warn!(%error, "taking a connection");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        let Some(place) = places.admit(peer) else {
            tracing::debug!(%peer, "all connections of this address are being answered");
            continue;
        };
        // Events are small and should be sent at once.
        let _ = stream.set_nodelay(true);
        let (tls, router, stopping) = (tls.clone(), router.clone(), stopping.clone());
        connections.spawn(async move {
            let place = Arc::new(place);
            tokio::select! {
                () = secured(stream, peer, Arc::clone(&place), tls, router, stopping) => {}
                () = place.displaced() => {}
            }
        });
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP, ended).await.is_err() {
        tracing::info!("connections that did not end are cut off");
    }
}

/// Waits until the controller is told to stop.
async fn told(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the process.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// A connection, with TLS if there is a certificate.
async fn secured(
    stream: TcpStream,
    peer: IpAddr,
    place: Arc<ConnectionPlace>,
    tls: Option<TlsAcceptor>,
    router: Router,
    stopping: watch::Receiver<bool>,
) {
    let stream = place.timed(stream);
    let Some(tls) = tls else {
        return connection(stream, peer, place, router, stopping).await;
    };
    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD, tls.accept(stream)).await {
        connection(stream, peer, place, router, stopping).await;
    }
}

/// A body that keeps the connection's slot until it was sent.
struct Kept {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: IpAddr,
    place: Arc<ConnectionPlace>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answering = place.answering();
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let answer = router.clone().oneshot(request);
        async move {
            let (parts, body) = answer.await?.into_parts();
            let body = Kept {
                body,
                _answering: answering,
            };
            Ok::<_, Infallible>(Response::from_parts(parts, body))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = told(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // The peer has closed the connection.
        tracing::debug!(%error, "a connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_than_this_host_come_by_tls_or_not_at_all() {
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = listen(Some(open), false).await.unwrap_err();
            assert!(refused.is::<UsageError>(), "{open}: {refused:#}");
            assert!(refused.to_string().contains("tls_cert"), "{refused:#}");
        }
        assert!(listen(Some("localhost"), false).await.is_err());
        assert!(listen(Some("127.0.0.1:0"), false).await.is_ok());
        assert!(listen(Some("0.0.0.0:0"), true).await.is_ok());
    }

    #[tokio::test]
    async fn where_nobody_says_the_next_free_port_is_taken() {
        let one = listen(None, false).await.unwrap();
        let other = listen(None, false).await.unwrap();
        assert_ne!(one.local_addr().unwrap(), other.local_addr().unwrap());
        let taken = one.local_addr().unwrap().to_string();
        let refused = listen(Some(&taken), false).await.unwrap_err();
        assert!(refused.to_string().contains("E-API-LISTEN"), "{refused:#}");
    }

    /// Sends requests for a long answer and reads none, until the server accepts no more.
    fn stuffed(at: SocketAddr) -> std::net::TcpStream {
        use std::io::Write as _;
        let mut stream = std::net::TcpStream::connect(at).expect("it listens");
        let moment = Some(Duration::from_millis(500));
        stream.set_write_timeout(moment).expect("a time");
        let many = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
        while stream.write_all(many.as_bytes()).is_ok() {}
        stream
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn answers_that_are_not_read_keep_nobody_out() {
        let listener = listen(Some("127.0.0.1:0"), false).await.unwrap();
        let at = listener.local_addr().unwrap();
        let long = || async { "x".repeat(1 << 20) };
        let router = Router::new().route("/", axum::routing::get(long));
        let (stop, stopping) = watch::channel(false);
        let bounds = Bounds {
            connections: 32,
            share: 24,
            ..BOUNDS
        };
        let served = tokio::spawn(serve(listener, None, router, stopping, bounds));
        let asked = tokio::task::spawn_blocking(move || {
            let deaf: Vec<_> = (0..24)
                .map(|_| std::thread::spawn(move || stuffed(at)))
                .collect();
            let deaf: Vec<_> = deaf.into_iter().map(|it| it.join().unwrap()).collect();
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(at).expect("it listens");
            // Shorter than the timeout of a head.
            stream.set_read_timeout(Some(HEAD / 2)).expect("a time");
            let head = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).expect("it is sent");
            let mut answer = String::new();
            let read = stream.read_to_string(&mut answer);
            drop(deaf);
            read.map(|_| answer)
        });
        let answer = asked.await.unwrap().expect("an answer in time");
        assert!(answer.starts_with("HTTP/1.1 200 "));
        stop.send_replace(true);
        served.await.unwrap();
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        assert!(tls(None, None).unwrap().is_none());
        assert!(tls(Some("cert.pem"), None).is_err());
        let missing = tls(Some("no-cert.pem"), Some("no-key.pem")).err().unwrap();
        assert!(missing.to_string().contains("E-API-TLS"), "{missing:#}");
    }

    #[test]
    fn a_browser_is_told_an_address_that_it_can_come_by() {
        let of = |text: &str, secure| url(text.parse().unwrap(), secure);
        assert_eq!(of("127.0.0.1:7070", false), "http://127.0.0.1:7070");
        assert_eq!(of("0.0.0.0:443", true), "https://localhost:443");
        assert_eq!(of("[::1]:7070", false), "http://[::1]:7070");
    }
}
