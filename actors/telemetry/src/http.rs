//! The few lines of HTTP/1.1 that posting OTLP takes. It blocks, on purpose: each exporter has a
//! thread of its own, and a client without a runtime cannot deadlock with one at shutdown.

use std::fmt;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};

/// Longest head and longest body of an answer; a collector's are a few hundred bytes.
const HEAD: u64 = 16 << 10;
const BODY: u64 = 256 << 10;

/// Posts to one collector over a connection that is kept.
pub(crate) struct Poster {
    timeout: Duration,
    connection: Mutex<Option<BufReader<TcpStream>>>,
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Says why an endpoint cannot be posted to.
pub(crate) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let request = Request::post(endpoint)
        .body(())
        .map_err(|error| error.to_string())?;
    let uri = request.uri();
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err(
            "a login does not belong in it; OTEL_EXPORTER_OTLP_HEADERS takes a token".into(),
        );
    }
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(host)) if !host.is_empty() => Ok(()),
        (Some("https"), _) => Err("https is not spoken here; run a collector beside Warploom \
             that takes http and forwards"
            .into()),
        _ => Err("it is not http://host[:port]".into()),
    }
}

impl Poster {
    /// `timeout` bounds connecting, and every read and write, of one attempt.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout: timeout.max(Duration::from_millis(1)),
            connection: Mutex::new(None),
        }
    }

    fn post(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut slot = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A kept connection may have been closed since; a fresh one has no such excuse.
        if let Some(mut kept) = slot.take()
            && let Ok((answer, keep)) = exchange(&mut kept, request)
        {
            *slot = keep.then_some(kept);
            return Ok(answer);
        }
        let mut fresh = BufReader::new(self.connect(request)?);
        let (answer, keep) = exchange(&mut fresh, request)?;
        *slot = keep.then_some(fresh);
        Ok(answer)
    }

    fn connect(&self, request: &Request<Bytes>) -> io::Result<TcpStream> {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut last = Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (host, uri.port_u16().unwrap_or(80)).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.timeout))?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl HttpClient for Poster {
    fn send_bytes<'life, 'out>(
        &'life self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'out>>
    where
        'life: 'out,
        Self: 'out,
    {
        Box::pin(async move { self.post(&request) })
    }
}

/// One request and its answer; whether the connection can be used again.
fn exchange(
    stream: &mut BufReader<TcpStream>,
    request: &Request<Bytes>,
) -> Result<(Response<Bytes>, bool), HttpError> {
    send(stream.get_mut(), request)?;
    let (mut status, mut head) = read_head(stream)?;
    while status / 100 == 1 {
        (status, head) = read_head(stream)?;
    }
    let field = |name| find(&head, name);
    let chunked = field("transfer-encoding").is_some_and(|value| value.contains("chunked"));
    let closes = field("connection").is_some_and(|value| value.contains("close"));
    let length = field("content-length").map(|value| value.parse::<u64>());
    let (body, ends) = match length {
        _ if status == 204 || status == 304 => (Vec::new(), true),
        _ if chunked => (read_chunks(stream)?, true),
        Some(length) => (read_exactly(stream, length.map_err(bad)?)?, true),
        None => (read_rest(stream)?, false),
    };
    let mut response = Response::builder().status(status);
    if let Some(seconds) = field("retry-after") {
        response = response.header("retry-after", seconds);
    }
    Ok((response.body(body.into())?, ends && !closes))
}

fn send(stream: &mut TcpStream, request: &Request<Bytes>) -> io::Result<()> {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let body = request.body();
    let mut message = format!(
        "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: {}\r\n",
        body.len()
    )
    .into_bytes();
    for (name, value) in request.headers() {
        message.extend_from_slice(name.as_str().as_bytes());
        message.extend_from_slice(b": ");
        message.extend_from_slice(value.as_bytes());
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"\r\n");
    message.extend_from_slice(body);
    stream.write_all(&message)
}

type Head = Vec<(String, String)>;

/// The status and the fields, names in lower case.
fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Head)> {
    let mut stream = stream.take(HEAD);
    let first = read_line(&mut stream)?;
    let status = first
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5)?.parse().ok());
    let status = status.ok_or_else(|| bad("not an HTTP/1 answer"))?;
    let mut head = Head::new();
    if first.starts_with("HTTP/1.0") {
        head.push(("connection".into(), "close".into()));
    }
    loop {
        let line = read_line(&mut stream)?;
        if line.is_empty() {
            return Ok((status, head));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| bad("a field without a colon"))?;
        let value = value.trim().to_ascii_lowercase();
        head.push((name.trim().to_ascii_lowercase(), value));
    }
}

fn find<'a>(head: &'a Head, name: &str) -> Option<&'a str> {
    let field = head.iter().find(|(key, _)| key == name);
    field.map(|(_, value)| value.as_str())
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn read_chunks(stream: &mut impl BufRead) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    loop {
        let line = read_line(&mut stream.take(HEAD))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(bad)?;
        if size == 0 {
            while !read_line(&mut stream.take(HEAD))?.is_empty() {}
            return Ok(body);
        }
        // The sum is checked before anything of the size that was claimed is held.
        let total = (body.len() as u64).saturating_add(size);
        if total > BODY {
            return Err(Box::new(ResponseBodyTooLarge::new()));
        }
        body.extend(read_exactly(stream, size)?);
        read_line(&mut stream.take(HEAD))?;
    }
}

fn read_exactly(stream: &mut impl BufRead, length: u64) -> Result<Vec<u8>, HttpError> {
    if length > BODY {
        return Err(Box::new(ResponseBodyTooLarge::new()));
    }
    let mut body = Vec::new();
    stream.take(length).read_to_end(&mut body)?;
    if body.len() as u64 != length {
        return Err(Box::new(Error::from(ErrorKind::UnexpectedEof)));
    }
    Ok(body)
}

fn read_rest(stream: &mut impl BufRead) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    stream.take(BODY + 1).read_to_end(&mut body)?;
    if body.len() as u64 > BODY {
        return Err(Box::new(ResponseBodyTooLarge::new()));
    }
    Ok(body)
}

fn bad(error: impl Into<HttpError>) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use crate::*;

    /// A server that answers the posts of each connection with these texts, then closes it;
    /// gives the bodies it was sent.
    fn server(connections: Vec<Vec<&'static str>>) -> (String, JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().expect("bound"));
        let thread = thread::spawn(move || {
            let mut bodies = Vec::new();
            for answers in connections {
                let (stream, _) = listener.accept().expect("a client");
                let mut stream = BufReader::new(stream);
                for answer in answers {
                    let line = read_line(&mut stream).expect("a request");
                    assert_eq!(line, "POST /v1/traces HTTP/1.1");
                    let mut head = Head::new();
                    while let Some((name, value)) =
                        read_line(&mut stream).expect("a head").split_once(": ")
                    {
                        head.push((name.into(), value.into()));
                    }
                    assert_eq!(find(&head, "content-type"), Some("application/x-protobuf"));
                    let length = find(&head, "content-length").expect("a length");
                    let length = length.parse().expect("a number");
                    bodies.push(read_exactly(&mut stream, length).expect("a body"));
                    stream.get_mut().write_all(answer.as_bytes()).expect("sent");
                }
            }
            bodies
        });
        (endpoint, thread)
    }

    fn request(endpoint: &str, body: &'static str) -> Request<Bytes> {
        Request::post(endpoint)
            .header("content-type", "application/x-protobuf")
            .body(Bytes::from_static(body.as_bytes()))
            .expect("a request")
    }

    fn post(poster: &Poster, endpoint: &str, body: &'static str) -> (u16, String) {
        let answer = poster.post(&request(endpoint, body)).expect("an answer");
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        (answer.status().as_u16(), text)
    }

    const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn one_connection_serves_many_posts_of_every_shape() {
        let chunked = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\
             Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nt: 1\r\n\r\n";
        let (endpoint, thread) = server(vec![vec![EMPTY, chunked, EMPTY]]);
        let poster = Poster::new(Duration::from_secs(5));
        assert_eq!(post(&poster, &endpoint, "one"), (200, String::new()));
        assert_eq!(post(&poster, &endpoint, ""), (503, "abcde".into()));
        assert_eq!(post(&poster, &endpoint, "three"), (200, String::new()));
        let bodies = thread.join().expect("served");
        assert_eq!(bodies, [b"one".to_vec(), Vec::new(), b"three".to_vec()]);
    }

    #[test]
    fn a_closed_connection_is_made_again() {
        let rest = "HTTP/1.0 400 Bad\r\n\r\nwhy";
        let (endpoint, thread) = server(vec![vec![EMPTY], vec![rest], vec![EMPTY]]);
        let poster = Poster::new(Duration::from_secs(5));
        assert_eq!(post(&poster, &endpoint, "a").0, 200);
        assert_eq!(post(&poster, &endpoint, "b"), (400, "why".into()));
        assert_eq!(post(&poster, &endpoint, "c").0, 200);
        assert_eq!(thread.join().expect("served").len(), 3);
    }

    #[test]
    fn what_is_wrong_is_an_error_and_not_a_wait() {
        let large = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        let short = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        for answer in [large, chunk, short, "SSH-2.0-x\r\n", "HTTP/1.1 2", ""] {
            let (endpoint, thread) = server(vec![vec![answer]]);
            let poster = Poster::new(Duration::from_secs(5));
            assert!(poster.post(&request(&endpoint, "a")).is_err(), "{answer}");
            thread.join().expect("served");
        }
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}/v1/traces", silent.local_addr().expect("bound"));
        let poster = Poster::new(Duration::from_millis(20));
        assert!(poster.post(&request(&endpoint, "a")).is_err());
        drop(silent);
        assert!(poster.post(&request(&endpoint, "a")).is_err());
    }

    #[test]
    fn only_http_endpoints_are_taken() {
        assert_eq!(check_endpoint("http://localhost:4318/v1/traces"), Ok(()));
        assert_eq!(check_endpoint("http://[::1]:4318/v1/traces"), Ok(()));
        for bad in [
            "",
            "localhost:4318",
            "https://a",
            "ftp://a",
            "http://",
            "http://a b",
            "http://user:secret@a",
        ] {
            assert!(check_endpoint(bad).is_err(), "{bad}");
        }
    }
}
