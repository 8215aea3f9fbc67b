//! A collector of spans, OTLP over HTTP. It keeps posts as they come. Of their spans it tells what measurements need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

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
    /// Its id.
    pub(super) span: Vec<u8>,
    /// The id of its parent; empty without one.
    pub(super) parent: Vec<u8>,
    /// Its name.
    pub(super) name: String,
    /// Its session.
    pub(super) session: String,
    /// Time of its start, in nanoseconds since 1970.
    pub(super) start: u64,
    /// Time of its end.
    pub(super) end: u64,
    /// Number of its launches.
    pub(super) launches: u64,
}

/// A post of spans.
#[derive(Debug)]
pub(super) struct Post {
    /// Time of its arrival, in nanoseconds since 1970.
    pub(super) arrived: u64,
    body: Vec<u8>,
}

impl Post {
    /// Its spans.
    pub(super) fn spans(&self) -> Result<Vec<Seen>> {
        spans(&self.body).context("the post is no list of spans")
    }
}

/// All that was posted. It is decoded when it is asked for, and takes no time from what is measured.
type Posts = Arc<Mutex<Vec<Post>>>;

/// The receiver. It serves for the lifetime of the process.
pub(super) struct Receiver {
    endpoint: String,
    posts: Posts,
}

fn locked(posts: &Mutex<Vec<Post>>) -> MutexGuard<'_, Vec<Post>> {
    posts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// Listens on a free port of this host.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a port for spans")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let posts = Posts::default();
        let kept = Arc::clone(&posts);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                // A sender that stops or sends an invalid post is dropped.
                std::thread::spawn(move || serve(&stream, &kept));
            }
        });
        Ok(Self { endpoint, posts })
    }

    /// Its base URL.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All spans of a session, ordered by their start.
    pub(super) fn of(&self, session: &str) -> Result<Vec<Seen>> {
        let mut own = Vec::new();
        for post in locked(&self.posts).iter() {
            let spans = post.spans()?.into_iter();
            own.extend(spans.filter(|span| span.session == session));
        }
        own.sort_by_key(|span| span.start);
        Ok(own)
    }

    /// Takes what was posted since it was taken before.
    pub(super) fn take(&self) -> Vec<Post> {
        std::mem::take(&mut *locked(&self.posts))
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Vec<Post>>) -> Result<()> {
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
            let arrived = SystemTime::UNIX_EPOCH.elapsed()?.as_nanos();
            let arrived = u64::try_from(arrived)?;
            locked(kept).push(Post { arrived, body });
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
        let mut seen = Self {
            trace: span.trace_id,
            span: span.span_id,
            parent: span.parent_span_id,
            name: span.name,
            start: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
            ..Self::default()
        };
        for attribute in span.attributes {
            let value = attribute.value.and_then(|it| it.value);
            match (attribute.key.as_str(), value) {
                ("warploom.session", Some(Value::StringValue(session))) => seen.session = session,
                ("warploom.launches", Some(Value::IntValue(launches))) => {
                    seen.launches = u64::try_from(launches).unwrap_or_default();
                }
                _ => {}
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};

    use super::*;

    /// One span, with attributes that matter and others.
    fn request() -> Vec<u8> {
        let attribute = |key: &str, value| KeyValue {
            key: key.into(),
            value: Some(AnyValue { value: Some(value) }),
            ..KeyValue::default()
        };
        let text = |key, value: &str| attribute(key, Value::StringValue(value.into()));
        let span = Span {
            trace_id: vec![7; 16],
            span_id: vec![8; 8],
            parent_span_id: vec![9; 8],
            name: "queue".into(),
            kind: 2,
            start_time_unix_nano: 1_234_567_890_123,
            end_time_unix_nano: 1_234_567_890_456,
            attributes: vec![
                text("warploom.tenant", "chat"),
                text("warploom.session", "9f"),
                attribute("warploom.launches", Value::IntValue(20)),
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
            span: vec![8; 8],
            parent: vec![9; 8],
            name: "queue".into(),
            session: "9f".into(),
            start: 1_234_567_890_123,
            end: 1_234_567_890_456,
            launches: 20,
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
        assert_eq!(receiver.of("9f").unwrap().len(), 1);
        assert!(receiver.of("other").unwrap().is_empty());
        let posts = receiver.take();
        assert!(posts.len() == 1 && posts[0].arrived > 1_234_567_890_456);
        assert!(receiver.take().is_empty());
    }
}
