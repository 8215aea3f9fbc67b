//! A collector of spans, OTLP over HTTP, that keeps of each span what a measurement needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Maximum bytes of an accepted post; the exporters' posts are below a megabyte.
const BODY: usize = 16 << 20;

/// A span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its trace.
    pub(super) trace: Vec<u8>,
    /// Its name.
    pub(super) name: String,
    /// Its session.
    pub(super) session: String,
    /// Time of its start, in nanoseconds since 1970.
    pub(super) start: u64,
}

/// The receiver. It serves for the lifetime of the process.
pub(super) struct Receiver {
    endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receiver {
    /// Listens on a free port of this host.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a port for spans")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                // A sender that stops or sends an invalid post is dropped.
                std::thread::spawn(move || serve(&stream, &kept));
            }
        });
        Ok(Self { endpoint, seen })
    }

    /// Its base URL.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All spans of a session, ordered by their start.
    pub(super) fn of(&self, session: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let own = seen.iter().filter(|span| span.session == session);
        let mut own: Vec<Seen> = own.cloned().collect();
        own.sort_by_key(|span| span.start);
        own
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Vec<Seen>>) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut length = 0;
        let mut traces = false;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.starts_with("POST ") {
                traces = line.contains("/v1/traces");
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        if length > BODY {
            bail!("a post of {length} bytes");
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if traces {
            let spans = spans(&body).context("the post is no list of spans")?;
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(spans);
        }
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}

/// The spans of a post.
fn spans(post: &[u8]) -> Result<Vec<Seen>> {
    let request = ExportTraceServiceRequest::decode(post)?;
    let scopes = request
        .resource_spans
        .into_iter()
        .flat_map(|it| it.scope_spans);
    let spans = scopes.flat_map(|scope| scope.spans);
    Ok(spans.map(Seen::from).collect())
}

impl From<Span> for Seen {
    fn from(span: Span) -> Self {
        let mut attributes = span.attributes.into_iter();
        let session = attributes.find(|it| it.key == "warploom.session");
        let session = session.and_then(|it| it.value?.value);
        Self {
            trace: span.trace_id,
            name: span.name,
            session: match session {
                Some(Value::StringValue(session)) => session,
                _ => String::new(),
            },
            start: span.start_time_unix_nano,
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};

    use super::*;

    /// One span, with attributes that matter and others.
    fn request() -> Vec<u8> {
        let attribute = |key: &str, value: &str| KeyValue {
            key: key.into(),
            value: Some(AnyValue {
                value: Some(Value::StringValue(value.into())),
            }),
            ..KeyValue::default()
        };
        let span = Span {
            trace_id: vec![7; 16],
            name: "queue".into(),
            kind: 2,
            start_time_unix_nano: 1_234_567_890_123,
            attributes: vec![
                attribute("warploom.tenant", "chat"),
                attribute("warploom.session", "9f"),
            ],
            ..Span::default()
        };
        let scope = ScopeSpans {
            spans: vec![span],
            ..ScopeSpans::default()
        };
        let resource = ResourceSpans {
            scope_spans: vec![scope],
            ..ResourceSpans::default()
        };
        let resource_spans = vec![resource];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    #[test]
    fn spans_are_read_and_what_is_cut_off_is_refused() {
        let bytes = request();
        let expected = Seen {
            trace: vec![7; 16],
            name: "queue".into(),
            session: "9f".into(),
            start: 1_234_567_890_123,
        };
        assert_eq!(spans(&bytes).expect("spans"), [expected]);
        for end in 1..bytes.len() {
            assert!(spans(&bytes[..end]).is_err(), "{end} bytes of it");
        }
    }

    #[test]
    fn what_is_posted_is_seen() {
        let receiver = Receiver::start().unwrap();
        let to = receiver.endpoint().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(to).unwrap();
        let body = request();
        for path in ["/v1/metrics", "/v1/traces"] {
            let length = body.len();
            let head = format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
            let mut answer = [0; 38];
            stream.read_exact(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200 "));
        }
        assert_eq!(receiver.of("9f").len(), 1);
        assert!(receiver.of("other").is_empty());
    }
}
