//! The connection to an OTLP collector: the library's HTTP client, set up for Warploom.
//!
//! The client blocks and has a thread of its own. Exporters have their own threads too, and none of
//! them may wait for a runtime that the process is about to end.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::Url;
use reqwest::blocking::Client;
use reqwest::redirect::Policy;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Posts to one collector, and logs why a post failed.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Taken only on drop.
    client: Option<Client>,
    /// The last reason that was logged; `None` since a successful post.
    reason: Mutex<Option<String>>,
}

impl Collector {
    /// Creates a client for `endpoint`. `timeout` bounds one attempt, from connecting to the end of
    /// the answer. Trusts the certificates in the file `authority`, by default those of the system.
    pub(crate) fn new(
        endpoint: &str,
        authority: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let roots = match (check_endpoint(endpoint)?, authority) {
            (false, _) => RootCertStore::empty(),
            (true, Some(file)) => certificates(file)
                .map_err(|error| format!("the certificates in {}: {error}", file.display()))?,
            (true, None) => system_certificates(),
        };
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .timeout(timeout.max(Duration::from_millis(1)))
            .redirect(Policy::none())
            .no_proxy();
        // The construction waits for the client's thread, which a thread that runs futures must not
        // do.
        let client = thread::scope(|scope| scope.spawn(|| builder.build()).join());
        let client = client.map_err(|_| "the HTTP client's thread panicked")?;
        Ok(Self {
            client: Some(client.map_err(|error| chain(&error))?),
            reason: Mutex::default(),
        })
    }

    /// Logs why a post failed. Logs the same reason again only after another reason or a successful
    /// post. The SDK logs that spans or metrics were lost, but not why.
    fn note(&self, failed: Option<&HttpError>) {
        let reason = failed.map(|error| chain(error.as_ref()));
        let mut last = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != reason {
            if let Some(reason) = &reason {
                tracing::warn!(reason, "the OTLP collector cannot be reached");
            }
            *last = reason;
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.as_ref().ok_or("the collector was given up")?;
        let answer = client.send_bytes(request).await;
        self.note(answer.as_ref().err());
        answer
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The client's thread may be resolving a name, which takes longer than the caller of drop
        // may wait.
        let client = self.client.take();
        let _ = thread::Builder::new().spawn(move || drop(client));
    }
}

/// True if the endpoint uses https, false for http; else the error says what is wrong.
fn check_endpoint(endpoint: &str) -> Result<bool, String> {
    let url = Url::parse(endpoint).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "a login does not belong in it; OTEL_EXPORTER_OTLP_HEADERS takes a token".into(),
        );
    }
    match url.scheme() {
        "http" => Ok(false),
        "https" => Ok(true),
        _ => Err("it is not http://host[:port] or https://host[:port]".into()),
    }
}

fn certificates(file: &Path) -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    if roots.is_empty() {
        return Err("none is in it".into());
    }
    Ok(roots)
}

fn system_certificates() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate of the system cannot be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    roots
}

/// Returns an error and its causes in one line.
fn chain(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use futures_util::future::FutureExt;

    use super::*;

    const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    /// A server that answers the posts of each connection with these texts and then closes it.
    /// Returns the bodies that it received, one byte each.
    fn server(connections: Vec<Vec<&'static str>>) -> (String, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().expect("bound"));
        let thread = thread::spawn(move || {
            let mut bodies = Vec::new();
            for answers in connections {
                let (mut stream, _) = listener.accept().expect("a client");
                for answer in answers {
                    let mut request = Vec::new();
                    let mut byte = [0];
                    while !request.ends_with(b"\r\n\r\n") {
                        stream.read_exact(&mut byte).expect("a head");
                        request.push(byte[0]);
                    }
                    assert!(request.starts_with(b"POST /v1/traces HTTP/1.1\r\n"));
                    stream.read_exact(&mut byte).expect("a body");
                    bodies.push(byte[0]);
                    stream.write_all(answer.as_bytes()).expect("sent");
                }
            }
            bodies
        });
        (endpoint, thread)
    }

    fn collector(endpoint: &str, millis: u64) -> Collector {
        Collector::new(endpoint, None, Duration::from_millis(millis)).expect("an endpoint")
    }

    fn post(collector: &Collector, endpoint: &str, body: &'static str) -> Result<u16, HttpError> {
        let request = Request::post(endpoint).body(Bytes::from_static(body.as_bytes()))?;
        let answer = collector.send_bytes(request).now_or_never();
        Ok(answer.expect("it blocks")?.status().as_u16())
    }

    #[test]
    fn a_connection_is_kept_and_one_that_was_closed_is_made_again() {
        let chunked = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\
             Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nt: 1\r\n\r\n";
        let rest = "HTTP/1.0 400 Bad\r\n\r\nwhy";
        let (endpoint, thread) = server(vec![vec![EMPTY, chunked, EMPTY], vec![rest], vec![EMPTY]]);
        let collector = collector(&endpoint, 5_000);
        for (body, status) in [("a", 200), ("b", 503), ("c", 200), ("d", 400), ("e", 200)] {
            // A closed connection may show only on the next write; the exporter then tries again.
            let answer = post(&collector, &endpoint, body);
            let answer = answer.or_else(|_| post(&collector, &endpoint, body));
            assert_eq!(answer.expect("an answer"), status, "{body}");
        }
        assert_eq!(thread.join().expect("served"), b"abcde");
    }

    #[test]
    fn what_is_wrong_is_an_error_and_not_a_wait() {
        let large = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        let short = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        for answer in [large, chunk, short, "SSH-2.0-x\r\n", "HTTP/1.1 2", ""] {
            let (endpoint, thread) = server(vec![vec![answer]]);
            let collector = collector(&endpoint, 5_000);
            assert!(post(&collector, &endpoint, "a").is_err(), "{answer}");
            thread.join().expect("served");
        }
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}/v1/traces", silent.local_addr().expect("bound"));
        let collector = collector(&endpoint, 20);
        assert!(post(&collector, &endpoint, "a").is_err());
        drop(silent);
        assert!(post(&collector, &endpoint, "a").is_err());
    }

    #[test]
    fn only_http_and_https_endpoints_are_taken() {
        assert_eq!(check_endpoint("http://localhost:4318/v1/traces"), Ok(false));
        assert_eq!(check_endpoint("http://[::1]:4318/v1/traces"), Ok(false));
        assert_eq!(check_endpoint("https://a"), Ok(true));
        for bad in [
            "",
            "localhost:4318",
            "ftp://a",
            "http://",
            "http://a b",
            "http://user:secret@a",
        ] {
            assert!(check_endpoint(bad).is_err(), "{bad}");
        }
    }
}
