//! Where the controller listens, and its connections: each bounded in number, in the time of its head, and
//! by TLS wherever others than this host can come.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use warploom_cli::exit::UsageError;

use crate::http::gate::Peer;

/// The port where nobody says another, or one of those behind it.
const PORT: u16 = 7_070;
/// Ports that are tried.
const PORTS: u16 = 20;
/// Connections at a time.
const CONNECTIONS: usize = 2_048;
/// How long the head of a request may take, and the beginning of TLS.
const HEAD: Duration = Duration::from_secs(10);
/// How long what is under way may take when the controller is told to stop.
const STOP: Duration = Duration::from_secs(2);
/// Before a connection is taken again, where that failed: there are too many files, say.
const AGAIN: Duration = Duration::from_millis(100);

/// Certificate and key for https.
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
            .with_context(|| format!("E-API-TLS: reading {}", cert.display()))?;
        let key = PrivateKeyDer::from_pem_file(key)
            .with_context(|| format!("E-API-TLS: reading {}", key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        config.context("E-API-TLS: the certificate and its key")
    };
    let mut config = read()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Listens. Without TLS only this host can come.
pub(crate) async fn listen(address: Option<&str>, secure: bool) -> Result<TcpListener> {
    let Some(text) = address else {
        for port in PORT..PORT + PORTS {
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                return Ok(listener);
            }
        }
        let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        return any.context("E-API-LISTEN: listening on 127.0.0.1");
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
    listener.with_context(|| format!("E-API-LISTEN: listening on {address}"))
}

/// The address by which a browser on this host comes.
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

/// Answers until it is told to stop; what is under way has a moment then.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // Finished ones are let go.
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = told(&mut stopping) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let (tls, router, stopping) = (tls.clone(), router.clone(), stopping.clone());
        connections.spawn(async move {
            // It goes back when the connection has ended.
            let _place = place;
            match tls {
                None => connection(stream, peer, router, stopping).await,
                Some(tls) => {
                    let accepted = tokio::time::timeout(HEAD, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = accepted {
                        connection(stream, peer, router, stopping).await;
                    }
                }
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
    // Whoever tells lives as long as the process.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

type Accepted = (TcpStream, IpAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Events are small and wanted at once.
            let _ = stream.set_nodelay(true);
            Some((stream, peer.ip(), place))
        }
        Err(error) => {
            tracing::warn!(%error, "taking a connection");
            None
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: IpAddr,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request)
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
        // Whoever was at the other end has gone.
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
